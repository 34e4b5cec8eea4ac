#include "tests/e2e/demo.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/auth/key_directory.h"
#include "common/base/status_macros.h"
#include "common/tls/testing/test_certificates.h"
#include "tests/e2e/consumer.h"
#include "tests/e2e/judge.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

namespace {

using integration::ApiClient;
using integration::GrpcTo;
using integration::HttpTo;
using integration::Platform;

constexpr char kOneOffs[] = "/tenants/default/events";
constexpr char kSeconds[] = "every-two-seconds";
constexpr char kZoned[] = "in-kathmandu";
constexpr char kBatch[] = "batch";
constexpr char kKilledBatch[] = "batch-with-kills";
constexpr int64_t kThrottledConcurrent = 50;
constexpr absl::Duration kThrottledWork = absl::Milliseconds(50);
// The services' default.
constexpr absl::Duration kLeaseTtl = absl::Seconds(5);

constexpr absl::Duration kCallTimeout = absl::Seconds(20);
const std::vector<std::string> kServices = {"store", "master", "emitter", "token_manager",
                                            "handler"};

std::string SourceOf(const std::string& id) {
  return absl::StrCat("/tenants/default/schedules/", id);
}

void Say(const std::string& words) { std::fprintf(stderr, "demo: %s\n", words.c_str()); }

class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : options_(options),
        platform_(std::make_unique<Platform>(
            Platform::Options{.bin = options.bin, .folder = options.folder})) {}

  absl::StatusOr<bool> Run() {
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(OnTime());
    RETURN_IF_ERROR(Batch());
    RETURN_IF_ERROR(BatchWithKills());
    RETURN_IF_ERROR(Secure());
    RETURN_IF_ERROR(ThrottledBatch());
    RETURN_IF_ERROR(ThrottledBatchWithKills());
    RETURN_IF_ERROR(Time());
    RETURN_IF_ERROR(Transports());
    std::fputs(FormatVerdicts(verdicts_).c_str(), stdout);
    bool held = true;
    for (const Verdict& verdict : verdicts_) held = held && verdict.problems.empty();
    std::printf("%s\n", held ? "Everything held." : "Not everything held.");
    return held;
  }

 private:
  absl::Status Start() {
    Say("starting store, master, emitter, token manager, handler and a consumer");
    ASSIGN_OR_RETURN(auto consumer, Consumer::Start(options_.bin + "/tests/fixtures/receiver",
                                                    options_.folder + "/receiver.log"));
    consumer_ = std::move(consumer);
    RETURN_IF_ERROR(platform_->Start(kServices));
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
    return absl::OkStatus();
  }

  // Stops the platform and starts it again with the same data. From here on it uses TLS, client
  // certificates between the services, and API keys.
  absl::Status Secure() {
    Say("starting the services again, with TLS, client certificates and API keys");
    for (auto service = kServices.rbegin(); service != kServices.rend(); ++service) {
      if (auto ended = platform_->Terminate(*service); !ended.ok()) return ended.status();
    }
    const SecureFiles files(options_.folder);
    platform_ = std::make_unique<Platform>(files.PlatformOptions(options_.bin, options_.folder));
    RETURN_IF_ERROR(platform_->Start(kServices));
    proof_ = files.proof;
    key_file_ = files.key_file;
    const std::string& master = platform_->grpc_address("master");
    api_ = std::make_unique<ApiClient>(master, kCallTimeout, proof_);
    // The master stores the key within a second and accepts it within five.
    const absl::Time deadline = absl::Now() + kCallTimeout;
    absl::Status known;
    do {
      known = api_->GetSchedule(kSeconds).status();
      if (!known.ok()) poll(nullptr, 0, 50);
    } while (!known.ok() && absl::Now() < deadline);
    if (!known.ok()) return known;
    Verdict refused;
    refused.what = "(-) calls without a key are refused";
    const absl::Status anonymous =
        ApiClient(master, kCallTimeout, {.tls = proof_.tls}).GetSchedule(kSeconds).status();
    if (!absl::IsUnauthenticated(anonymous)) refused.problems.push_back(anonymous.ToString());
    verdicts_.push_back(std::move(refused));
    return absl::OkStatus();
  }

  absl::Status Create(const std::string& id, const std::string& cron, const std::string& zone,
                      v1::Target target, int64_t event_count,
                      absl::Duration delivery_timeout = absl::Seconds(10)) {
    v1::Schedule schedule;
    schedule.set_cron(cron);
    schedule.set_time_zone(zone);
    schedule.set_event_count(event_count);
    schedule.set_payload(absl::StrCat("{\"of\":\"", id, "\"}"));
    schedule.mutable_delivery_timeout()->set_seconds(absl::ToInt64Seconds(delivery_timeout));
    schedule.mutable_retry_policy()->set_max_attempts(20);
    // Retries an event until it gets through, although the next occurrence is only two seconds
    // away.
    schedule.mutable_retry_policy()->set_keep(true);
    *schedule.mutable_target() = std::move(target);
    return api_->CreateSchedule(id, schedule).status();
  }

  // A cron expression that fires once a year, at `instant` by the clocks of `zone`.
  static std::string CronAt(absl::Time instant, const absl::TimeZone& zone) {
    return absl::FormatTime("%-S %-M %-H %-d %-m *", instant, zone);
  }

  static absl::Time NextSecond(absl::Duration ahead) {
    return absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now() + ahead) + 1);
  }

  // Shows progress until `expected` events from sources with `prefix` have come, or the phase's
  // time is over. Calls `every` about twenty times a second.
  absl::Status Await(const std::string& what, const std::string& prefix, uint64_t expected,
                     const std::function<absl::Status(uint64_t)>& every = nullptr) {
    const absl::Time deadline = absl::Now() + options_.phase_timeout;
    const absl::Time begun = absl::Now();
    uint64_t before = 0;
    absl::Time before_time = begun;
    double rate = 0;
    while (absl::Now() < deadline) {
      ASSIGN_OR_RETURN(auto count, consumer_->CountEvents(prefix));
      if (every) {
        RETURN_IF_ERROR(every(count));
      }
      const absl::Duration since = absl::Now() - before_time;
      if (since > absl::Milliseconds(500)) {
        rate = static_cast<double>(count - before) / absl::ToDoubleSeconds(since);
        before = count;
        before_time = absl::Now();
      }
      progress_.Show(absl::StrFormat("demo: %-36s %7d of %d  %8.0f/s  %5.1f s", what, count,
                                     expected, rate, absl::ToDoubleSeconds(absl::Now() - begun)));
      if (count >= expected) break;
      poll(nullptr, 0, 50);
    }
    progress_.Clear();
    return absl::OkStatus();
  }

  // (a) and (b): schedules and one-off events at exact instants.
  absl::Status OnTime() {
    absl::TimeZone zone;
    if (!absl::LoadTimeZone("Asia/Kathmandu", &zone))
      return absl::InternalError("no time zone data: run tools/setup");
    const absl::Time zoned_instant = NextSecond(absl::Seconds(8));
    if (auto status = Create(kZoned, CronAt(zoned_instant, zone), "Asia/Kathmandu",
                             GrpcTo(consumer_->grpc_uri()), 1);
        !status.ok()) {
      return status;
    }
    const absl::Time before_create = absl::Now();
    if (auto status =
            Create(kSeconds, "*/2 * * * * *", "UTC", HttpTo(consumer_->http_uri("/cron")), 1);
        !status.ok()) {
      return status;
    }
    const absl::Time after_create = absl::Now();

    // Distinct instants, none of them round, half by HTTP and half by gRPC.
    std::vector<v1::Event> events;
    std::set<int64_t> due;
    const int64_t first = absl::ToUnixMicros(absl::Now() + absl::Seconds(3));
    for (int64_t i = 0; i < options_.one_off_events; ++i) {
      const int64_t micros = first + i * 9'973;
      due.insert(micros);
      v1::Event event;
      event.mutable_due_time()->set_seconds(micros / 1'000'000);
      event.mutable_due_time()->set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1000));
      event.set_payload(absl::StrCat("{\"number\":", i, "}"));
      *event.mutable_target() =
          i % 2 == 0 ? HttpTo(consumer_->http_uri("/one-off")) : GrpcTo(consumer_->grpc_uri());
      events.push_back(std::move(event));
    }
    RETURN_IF_ERROR(api_->CreateEvents(events));
    if (auto status = Await("one-off events and cron", kOneOffs, due.size()); !status.ok())
      return status;
    if (auto status = Await("cron in another zone", SourceOf(kZoned), 1); !status.ok())
      return status;
    return JudgeOnTime(before_create, after_create, absl::ToUnixMicros(zoned_instant), due);
  }

  absl::Status JudgeOnTime(absl::Time before_create, absl::Time after_create, int64_t zoned_instant,
                           const std::set<int64_t>& due) {
    if (auto paused = api_->PauseSchedule(kSeconds); !paused.ok()) return paused.status();
    const absl::Time paused_at = absl::Now();
    // Events claimed before the pause may still be on their way.
    poll(nullptr, 0, 300);
    ASSIGN_OR_RETURN(auto ticks, consumer_->ListArrivals(SourceOf(kSeconds)));
    // Every even second from the creation to the pause. At the two edges a second counts only if
    // its event came.
    std::set<int64_t> expected;
    for (int64_t second = absl::ToUnixSeconds(before_create);
         second <= absl::ToUnixSeconds(paused_at); ++second) {
      const absl::Time instant = absl::FromUnixSeconds(second);
      const bool sure = instant > after_create && instant < paused_at - absl::Milliseconds(500);
      const bool came = std::any_of(ticks.begin(), ticks.end(), [&](const Arrival& a) {
        return a.launch_micros == second * 1'000'000;
      });
      if (second % 2 == 0 && (sure || came) && instant > before_create)
        expected.insert(second * 1'000'000);
    }
    verdicts_.push_back(JudgeInstants("(a) cron */2 * * * * *, HTTP", ticks, expected, false));
    ASSIGN_OR_RETURN(auto zoned, consumer_->ListArrivals(SourceOf(kZoned)));
    verdicts_.push_back(
        JudgeInstants("(a) cron in Asia/Kathmandu (+05:45), gRPC", zoned, {zoned_instant}, false));
    ASSIGN_OR_RETURN(auto one_offs, consumer_->ListArrivals(kOneOffs));
    verdicts_.push_back(JudgeInstants("(b) one-off events, HTTP and gRPC", one_offs, due, false));
    return absl::OkStatus();
  }

  // (c)
  absl::Status Batch() {
    const absl::Time instant = NextSecond(absl::Seconds(2));
    if (auto status = Create(kBatch, CronAt(instant, absl::UTCTimeZone()), "UTC",
                             GrpcTo(consumer_->grpc_uri()), options_.batch_events);
        !status.ok()) {
      return status;
    }
    if (auto status = Await("a batch by gRPC", SourceOf(kBatch), options_.batch_events);
        !status.ok())
      return status;
    return JudgeRun(kBatch, absl::StrCat("(c) batch of ", options_.batch_events, ", gRPC"),
                    /*again_allowed=*/false);
  }

  // (d)
  absl::Status BatchWithKills() {
    const absl::Time instant = NextSecond(absl::Seconds(2));
    // A short delivery timeout: a successor waits that long before it sends the killed handler's
    // claims again.
    if (auto status =
            Create(kKilledBatch, CronAt(instant, absl::UTCTimeZone()), "UTC",
                   HttpTo(consumer_->http_uri("/batch")), options_.batch_events, absl::Seconds(2));
        !status.ok()) {
      return status;
    }
    int kills = 0;
    absl::Time next_kill = absl::InfiniteFuture();
    const auto kill = [&](uint64_t count) -> absl::Status {
      if (count > 0 && kills == 0 && next_kill == absl::InfiniteFuture()) next_kill = absl::Now();
      if (kills == options_.kills || absl::Now() < next_kill) return absl::OkStatus();
      ++kills;
      next_kill += options_.kill_every;
      progress_.Clear();
      Say(absl::StrCat("kill -9 of handler and emitter, ", kills, " of ", options_.kills,
                       ", after ", count, " events"));
      for (const char* service : {"handler", "emitter"}) {
        platform_->Kill(service);
        RETURN_IF_ERROR(platform_->Restart(service));
      }
      return absl::OkStatus();
    };
    if (auto status = Await("a batch by HTTP, with kills", SourceOf(kKilledBatch),
                            options_.batch_events, kill);
        !status.ok()) {
      return status;
    }
    if (auto status =
            JudgeRun(kKilledBatch,
                     absl::StrCat("(d) batch of ", options_.batch_events, ", HTTP, with kills"),
                     /*again_allowed=*/true);
        !status.ok()) {
      return status;
    }
    if (kills < options_.kills) {
      verdicts_.back().problems.push_back(
          absl::StrCat("only ", kills, " of ", options_.kills, " kills were made"));
    }
    return absl::OkStatus();
  }

  absl::Status Throttled(ThrottledPhase phase) {
    phase.events = options_.throttled_events;
    phase.bin = options_.bin;
    phase.proof = proof_;
    phase.key_file = key_file_;
    phase.folder = options_.folder;
    phase.timeout = options_.phase_timeout;
    phase.show = [this](const std::string& words) { progress_.Show(words); };
    phase.say = [this](const std::string& words) {
      progress_.Clear();
      Say(words);
    };
    auto verdict = RunThrottled(phase, *platform_, *api_);
    progress_.Clear();
    if (!verdict.ok()) return verdict.status();
    verdicts_.push_back(*std::move(verdict));
    return absl::OkStatus();
  }

  static absl::Duration IdealOf(int64_t events) {
    return kThrottledWork * events / kThrottledConcurrent;
  }

  // (e)
  absl::Status ThrottledBatch() {
    return Throttled({.what = absl::StrCat("(e) ", options_.throttled_events, " under a policy of ",
                                           kThrottledConcurrent, ", gRPC"),
                      .schedule_id = "throttled",
                      .concurrent = kThrottledConcurrent,
                      .work = kThrottledWork,
                      .allowed = 1.15 * IdealOf(options_.throttled_events)});
  }

  // (f)
  absl::Status ThrottledBatchWithKills() {
    constexpr absl::Duration kDeliveryTimeout = absl::Seconds(2);
    const std::vector<std::string> victims = {"handler", "emitter", "token_manager"};
    return Throttled(
        {.what = absl::StrCat("(f) ", options_.throttled_events, " under a policy of ",
                              kThrottledConcurrent, ", HTTP, with kills"),
         .schedule_id = "throttled-with-kills",
         .concurrent = kThrottledConcurrent,
         .work = kThrottledWork,
         .by_http = true,
         .allowed = IdealOf(options_.throttled_events) + kDeliveryTimeout +
                    static_cast<int64_t>(victims.size()) * (kLeaseTtl + absl::Seconds(2)),
         .delivery_timeout = kDeliveryTimeout,
         .victims = victims,
         .kill_every = options_.kill_every});
  }

  // (g)
  absl::Status Time() {
    const TimePhase phase = {.timeout = options_.phase_timeout,
                             .show = [this](const std::string& words) { progress_.Show(words); },
                             .say =
                                 [this](const std::string& words) {
                                   progress_.Clear();
                                   Say(words);
                                 }};
    return Take(RunTime(phase, *platform_, *api_, *consumer_));
  }

  // (h)
  absl::Status Transports() {
    Say("one schedule each by HTTP, gRPC, SQS and Kafka");
    return Take(RunTransports({.bin = options_.bin,
                               .timeout = options_.phase_timeout,
                               .show = [this](const std::string& words) { progress_.Show(words); }},
                              *api_, *consumer_));
  }

  // The verdicts of a phase that has ended.
  absl::Status Take(absl::StatusOr<std::vector<Verdict>> verdicts) {
    progress_.Clear();
    if (!verdicts.ok()) return verdicts.status();
    std::move(verdicts->begin(), verdicts->end(), std::back_inserter(verdicts_));
    return absl::OkStatus();
  }

  // Compares the consumer's notes with the platform's own record: the run is complete, and every
  // event counts once.
  absl::Status JudgeRun(const std::string& id, const std::string& what, bool again_allowed) {
    const absl::Time deadline = absl::Now() + options_.phase_timeout;
    std::string last;
    bool complete = false;
    while (!complete && absl::Now() < deadline) {
      auto runs = api_->ListRuns(id);
      if (runs.ok() && runs->size() == 1) {
        const v1::Run& run = runs->front();
        last = absl::StrCat(v1::Run::State_Name(run.state()), " with ", run.succeeded_count(),
                            " succeeded, ", run.failed_count(), " failed, ", run.skipped_count(),
                            " skipped");
        complete = run.state() == v1::Run::COMPLETED &&
                   run.succeeded_count() == options_.batch_events &&
                   run.failed_count() + run.skipped_count() + run.cancelled_count() == 0;
      } else {
        last = runs.ok() ? absl::StrCat(runs->size(), " runs") : runs.status().ToString();
      }
      progress_.Show(absl::StrCat("demo: waiting for the run's record: ", last));
      if (!complete) poll(nullptr, 0, 50);
    }
    progress_.Clear();
    ASSIGN_OR_RETURN(auto arrivals, consumer_->ListArrivals(SourceOf(id)));
    verdicts_.push_back(JudgeBatch(what, arrivals, options_.batch_events, again_allowed));
    if (!complete)
      verdicts_.back().problems.push_back(absl::StrCat("the platform's own record says: ", last));
    return absl::OkStatus();
  }

  const DemoOptions& options_;
  std::unique_ptr<Platform> platform_;
  fixtures::CallerProof proof_;  // default: the platform needs none
  std::string key_file_;
  std::unique_ptr<Consumer> consumer_;
  std::unique_ptr<ApiClient> api_;
  Progress progress_;
  std::vector<Verdict> verdicts_;
};

}  // namespace

absl::StatusOr<bool> RunDemo(const DemoOptions& options) { return Demo(options).Run(); }

void Progress::Show(const std::string& words) {
  const absl::Time now = absl::Now();
  if (now - last_ < (terminal_ ? absl::Milliseconds(100) : absl::Seconds(3))) return;
  last_ = now;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", words.c_str());
  std::fflush(stderr);
}

void Progress::Clear() {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

SecureFiles::SecureFiles(const std::string& folder) : key_file(folder + "/admin.key") {
  const testing::TestCa ca;
  const std::string ca_file = folder + "/ca.pem";
  testing::WriteFile(ca_file, ca.pem());
  const auto service = testing::WriteIdentity(
      ca.Issue(1, "DNS:escapement-service,DNS:localhost,IP:127.0.0.1"), folder, "tls");
  service_cert_ = service.cert;
  service_key_ = service.key;
  proof.tls = PeerTls{.ca = ca_file};
  proof.key = auth::NewApiKey().ToString();
  testing::WriteFile(key_file, proof.key);
}

integration::Platform::Options SecureFiles::PlatformOptions(const std::string& bin,
                                                            const std::string& folder) const {
  const std::string& ca = proof.tls->ca;
  const std::vector<std::string> flags = {"--require_credentials", "--tls_cert=" + service_cert_,
                                          "--tls_key=" + service_key_, "--tls_service_ca=" + ca,
                                          "--peer_ca=" + ca};
  integration::Platform::Options options{.bin = bin, .folder = folder, .tls = proof.tls};
  for (const char* service : {"store", "master", "emitter", "token_manager", "handler"})
    options.extra_arguments[service] = flags;
  options.extra_arguments["master"].push_back("--bootstrap_key_file=" + key_file);
  return options;
}

}  // namespace escapement::e2e
