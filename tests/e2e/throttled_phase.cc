#include <poll.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/e2e/consumer.h"
#include "tests/e2e/demo.h"
#include "tests/fixtures/policy_client.h"

namespace escapement::e2e {
namespace {

using integration::ApiClient;
using integration::Platform;

class ThrottledRun {
 public:
  ThrottledRun(const ThrottledPhase& options, Platform& platform, ApiClient& api)
      : options_(options),
        platform_(platform),
        api_(api),
        source_(absl::StrCat("/tenants/default/schedules/", options.schedule_id)) {}

  absl::StatusOr<Verdict> Run() {
    RETURN_IF_ERROR(StartConsumer());
    RETURN_IF_ERROR(Create());
    RETURN_IF_ERROR(AwaitEnd());
    return Judge();
  }

 private:
  std::string Behaviour() const {
    return absl::StrCat("/work/", absl::ToInt64Milliseconds(options_.work));
  }

  absl::Status StartConsumer() {
    std::vector<std::string> arguments = {
        "--worker", absl::StrCat("--grpc_behaviour=", Behaviour()),
        absl::StrCat("--token_addresses=", platform_.grpc_address("token_manager"), ",",
                     platform_.grpc_address("master"))};
    if (options_.proof.tls.has_value()) {
      arguments.push_back(absl::StrCat("--token_ca=", options_.proof.tls->ca));
      arguments.push_back(absl::StrCat("--token_key_file=", options_.key_file));
    }
    ASSIGN_OR_RETURN(auto consumer, Consumer::Start(options_.bin + "/tests/fixtures/receiver",
                                                    absl::StrCat(options_.folder, "/receiver-",
                                                                 options_.schedule_id, ".log"),
                                                    arguments));
    consumer_ = std::move(consumer);
    return absl::OkStatus();
  }

  absl::Status Create() {
    fixtures::PolicyClient policies(platform_.grpc_address("master"), absl::Seconds(20),
                                    options_.proof);
    v1::ThrottlePolicy policy;
    policy.set_max_concurrent(options_.concurrent);
    ASSIGN_OR_RETURN(auto name, policies.Create(options_.schedule_id, policy));
    due_ = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now() + absl::Seconds(2)) + 1);
    v1::Schedule schedule;
    // Fires once a year, at this instant.
    schedule.set_cron(absl::FormatTime("%-S %-M %-H %-d %-m *", due_, absl::UTCTimeZone()));
    schedule.set_event_count(options_.events);
    schedule.set_policy(name);
    schedule.set_payload(absl::StrCat("{\"of\":\"", options_.schedule_id, "\"}"));
    schedule.mutable_delivery_timeout()->set_seconds(
        absl::ToInt64Seconds(options_.delivery_timeout));
    schedule.mutable_retry_policy()->set_max_attempts(20);
    *schedule.mutable_target() = options_.by_http
                                     ? integration::HttpTo(consumer_->http_uri(Behaviour()))
                                     : integration::GrpcTo(consumer_->grpc_uri());
    return api_.CreateSchedule(options_.schedule_id, schedule).status();
  }

  // Waits until all events have ended, and kills the victims at their times.
  absl::Status AwaitEnd() {
    const absl::Time deadline = due_ + options_.timeout;
    absl::Time next_kill = absl::InfiniteFuture();
    while (absl::Now() < deadline) {
      ASSIGN_OR_RETURN(auto work, consumer_->AskWork());
      work_ = work;
      options_.show(absl::StrFormat("demo: %-36s %7d of %d ended, %3d out  %5.1f s", options_.what,
                                    work_.ended, options_.events, work_.out,
                                    absl::ToDoubleSeconds(absl::Now() - due_)));
      if (work_.distinct > 0 && next_kill == absl::InfiniteFuture())
        next_kill = absl::Now() + options_.kill_every;
      if (kills_ < options_.victims.size() && absl::Now() >= next_kill) {
        RETURN_IF_ERROR(Kill(options_.victims[kills_++]));
        next_kill += options_.kill_every;
      }
      if (Ended()) return absl::OkStatus();
      poll(nullptr, 0, 50);
    }
    return absl::OkStatus();
  }

  absl::Status Kill(const std::string& service) {
    options_.say(absl::StrCat("kill -9 of ", service, " after ", work_.ended, " events"));
    if (work_.ended >= static_cast<uint64_t>(options_.events)) ++kills_too_late_;
    platform_.Kill(service);
    return platform_.Restart(service);
  }

  // By the consumer's counts and by the platform's own record.
  bool Ended() {
    if (work_.ended < static_cast<uint64_t>(options_.events) ||
        work_.answered < static_cast<uint64_t>(options_.events)) {
      return false;
    }
    const auto runs = api_.ListRuns(options_.schedule_id);
    if (!runs.ok() || runs->size() != 1) return false;
    run_ = runs->front();
    return run_.state() == v1::Run::COMPLETED;
  }

  absl::StatusOr<Verdict> Judge() {
    ASSIGN_OR_RETURN(auto arrivals, consumer_->ListArrivals(source_));
    Verdict verdict = JudgeBatch(options_.what, arrivals, static_cast<uint64_t>(options_.events),
                                 /*again_allowed=*/!options_.victims.empty());
    const absl::Time ended_at = absl::FromUnixMicros(
        std::max(work_.last_wall_micros,
                 run_.complete_time().seconds() * 1'000'000 + run_.complete_time().nanos() / 1000));
    JudgeThrottle(
        {.concurrent = options_.concurrent,
         .out_max = work_.out_max,
         .out_left = work_.out,
         .ideal_seconds = absl::ToDoubleSeconds(options_.work) *
                          static_cast<double>(options_.events) /
                          static_cast<double>(options_.concurrent),
         .took_seconds = absl::ToDoubleSeconds(ended_at - due_),
         .allowed_seconds = absl::ToDoubleSeconds(options_.allowed),
         .busy = work_.out_event_seconds / static_cast<double>(options_.concurrent) /
                 (static_cast<double>(work_.last_wall_micros - work_.first_wall_micros) / 1e6),
         .completed = run_.state() == v1::Run::COMPLETED,
         .succeeded = run_.succeeded_count(),
         .others = run_.failed_count() + run_.skipped_count() + run_.cancelled_count() +
                   run_.expired_count()},
        &verdict);
    if (kills_ < options_.victims.size() || kills_too_late_ > 0) {
      verdict.problems.push_back(absl::StrCat("of ", options_.victims.size(), " kills ",
                                              kills_ - kills_too_late_,
                                              " were made before the end"));
    }
    return verdict;
  }

  const ThrottledPhase& options_;
  Platform& platform_;
  ApiClient& api_;
  const std::string source_;
  std::unique_ptr<Consumer> consumer_;
  absl::Time due_;
  size_t kills_ = 0;
  size_t kills_too_late_ = 0;
  WorkNote work_;
  v1::Run run_;
};

}  // namespace

absl::StatusOr<Verdict> RunThrottled(const ThrottledPhase& phase, Platform& platform,
                                     ApiClient& api) {
  return ThrottledRun(phase, platform, api).Run();
}

}  // namespace escapement::e2e
