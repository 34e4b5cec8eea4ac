#include "tests/e2e/chaos/order_run.h"

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/e2e/chaos/attempt_port.h"
#include "tests/fixtures/policy_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::chaos {
namespace {

const std::vector<std::string> kOrderVictims = {"handler", "token_manager", "store"};
// No event is due before all exist, even if so few are created in a second.
constexpr double kCreatedPerSecond = 5000;
// How long after the last answer all events may need to end.
constexpr absl::Duration kEndMax = absl::Seconds(60);

// Accepts each event after `work`, except every tenth event's first arrival, which it refuses.
//
// Threads: any. The port's thread notes arrivals, one of its own answers.
class OrderConsumer {
 public:
  static absl::StatusOr<std::unique_ptr<OrderConsumer>> Start(absl::Duration work) {
    auto consumer = std::unique_ptr<OrderConsumer>(new OrderConsumer(work));
    ASSIGN_OR_RETURN(auto port, AttemptPort::Start([consumer = consumer.get()](Attempt attempt) {
                       consumer->OnAttempt(attempt);
                     }));
    consumer->port_ = std::move(port);
    consumer->thread_ = std::thread([consumer = consumer.get()] { consumer->AnswerAll(); });
    return consumer;
  }

  ~OrderConsumer() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) thread_.join();
    port_.reset();
  }

  std::string uri() const { return absl::StrCat("http://", port_->address(), "/ordered"); }

  static std::string PayloadOf(size_t key, size_t index) {
    return absl::StrCat("[", key, ",", index, "]");
  }

  size_t accepted() const {
    absl::MutexLock lock(&mutex_);
    return accepted_.size();
  }
  std::vector<OrderNote> Notes() const {
    absl::MutexLock lock(&mutex_);
    return notes_;
  }

 private:
  struct Waits {
    absl::Time until;
    size_t number = 0;  // Attempt::number
    size_t key = 0;
    size_t index = 0;
    bool refuse = false;
  };

  explicit OrderConsumer(absl::Duration work) : work_(work) {}

  void OnAttempt(const Attempt& attempt) {
    Waits waits{.until = absl::Now() + work_, .number = attempt.number};
    // A body that no event has makes an event that no key has.
    if (std::sscanf(attempt.body.c_str(), "[%zu,%zu]", &waits.key, &waits.index) != 2)
      waits.index = SIZE_MAX;
    absl::MutexLock lock(&mutex_);
    const bool tenth = (waits.key * 3 + waits.index * 7) % 10 == 0;
    waits.refuse = arrived_.insert({waits.key, waits.index}).second && tenth;
    notes_.push_back({OrderNote::Kind::kArrived, attempt.time, waits.key, waits.index});
    waits_.push_back(waits);
  }

  void AnswerAll() {
    while (true) {
      Waits next;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &OrderConsumer::HasWorkOrStops));
        if (!stopping_) mutex_.AwaitWithDeadline(absl::Condition(&stopping_), waits_.front().until);
        if (stopping_) return;
        next = waits_.front();
        waits_.pop_front();
        notes_.push_back({next.refuse ? OrderNote::Kind::kRefused : OrderNote::Kind::kAccepted,
                          absl::Now(), next.key, next.index});
        if (!next.refuse) accepted_.insert({next.key, next.index});
      }
      port_->Answer(next.number, next.refuse ? 500 : 200, "");
    }
  }
  bool HasWorkOrStops() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waits_.empty();
  }

  const absl::Duration work_;
  std::unique_ptr<AttemptPort> port_;
  std::thread thread_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Waits> waits_ ABSL_GUARDED_BY(mutex_);  // in the order of `until`
  std::set<std::pair<size_t, size_t>> arrived_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<size_t, size_t>> accepted_ ABSL_GUARDED_BY(mutex_);
  std::vector<OrderNote> notes_ ABSL_GUARDED_BY(mutex_);
};

integration::Platform::Options OrderPlatform(const OrderOptions& options) {
  const std::vector<std::string> short_leases = {"--lease_ttl=1s", "--lease_renew_every=200ms"};
  return {.bin = options.bin,
          .folder = options.folder,
          .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                              {"handler", short_leases},
                              {"token_manager", short_leases}},
          // A successor goes on at once, so it sends again while answers to the former one may be
          // under way.
          .instance_files = true};
}

class OrderedRun {
 public:
  explicit OrderedRun(const OrderOptions& options)
      : options_(options), platform_(OrderPlatform(options)) {}

  absl::StatusOr<OrderResult> Do() {
    RETURN_IF_ERROR(platform_.Start({"store", "master", "token_manager", "handler"}));
    ASSIGN_OR_RETURN(consumer_, OrderConsumer::Start(options_.work));
    api_ = std::make_unique<integration::ApiClient>(platform_.grpc_address("master"));
    policies_ = std::make_unique<fixtures::PolicyClient>(platform_.grpc_address("master"));
    RETURN_IF_ERROR(CreatePolicy());
    const absl::Time first =
        absl::Now() +
        absl::Seconds(1 + static_cast<double>(options_.keys * options_.events_of_key) /
                              kCreatedPerSecond);
    RETURN_IF_ERROR(CreateAll(first));
    const absl::Status status = KillAll();
    AwaitAccepted(all());
    const std::string open = AwaitEnds();
    result_.took = absl::Now() - first;
    result_.verdict =
        CheckOrder(consumer_->Notes(), faults_, options_.keys, options_.events_of_key);
    if (!status.ok()) Complain("process", status.ToString());
    for (const char* process : {"store", "master", "token_manager", "handler"}) {
      if (!platform_.Runs(process)) Complain("process", absl::StrCat(process, " does not run"));
    }
    if (!open.empty()) Complain("outcome", open);
    return std::move(result_);
  }

 private:
  size_t all() const { return options_.keys * options_.events_of_key; }

  void Complain(const std::string& rule, const std::string& what) {
    result_.verdict.violations.push_back({rule, what});
  }

  absl::Status CreatePolicy() {
    v1::ThrottlePolicy policy;
    policy.mutable_per_key()->set_max_concurrent(1);
    policy.set_retries(v1::ThrottlePolicy::KEEP_TOKEN);
    ASSIGN_OR_RETURN(policy_, policies_->Create("ordered", policy));
    return absl::OkStatus();
  }

  // Creates the first events of all keys, then their second ones, and so on.
  absl::Status CreateAll(absl::Time first) {
    v1::Event event;
    *event.mutable_target() = integration::HttpTo(consumer_->uri());
    event.set_policy(policy_);
    event.set_completion(v1::ON_DELIVERY);
    event.mutable_retry_policy()->set_max_attempts(100);
    event.mutable_retry_policy()->mutable_min_backoff()->set_nanos(100'000'000);
    event.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    for (size_t index = 0; index < options_.events_of_key; ++index) {
      *event.mutable_due_time() =
          integration::ToTimestamp(first + absl::Milliseconds(static_cast<int64_t>(index)));
      std::vector<v1::Event> events(options_.keys, event);
      for (size_t key = 0; key < options_.keys; ++key) {
        events[key].set_policy_key(absl::StrCat("key-", key));
        events[key].set_payload(OrderConsumer::PayloadOf(key, index));
      }
      RETURN_IF_ERROR(api_->CreateEvents(events));
    }
    return absl::OkStatus();
  }

  // Waits until the consumer has accepted so many events. Returns false if it stands still.
  bool AwaitAccepted(size_t count) {
    size_t seen = 0;
    bool done = false;
    while (!done) {
      const bool moved = integration::Await(
          [&] {
            const size_t now = consumer_->accepted();
            done = now >= count;
            const bool more = now > seen;
            seen = now;
            return done || more;
          },
          options_.standstill_max, absl::Milliseconds(1));
      if (!moved) return false;
    }
    return true;
  }

  absl::Status KillAll() {
    for (size_t kill = 0; kill < options_.kills; ++kill) {
      if (!AwaitAccepted(all() * (kill + 1) / (options_.kills + 1)))
        return absl::DeadlineExceededError("the consumer accepts no more events");
      const std::string& victim = kOrderVictims[kill % kOrderVictims.size()];
      faults_.push_back({absl::Now(), absl::InfiniteFuture()});
      platform_.Kill(victim);
      RETURN_IF_ERROR(platform_.Restart(victim));
      RETURN_IF_ERROR(platform_.AwaitReady(victim));
      faults_.back().end = absl::Now();
      ++result_.kills;
    }
    return absl::OkStatus();
  }

  // Waits until the platform says that each event has succeeded and that no token is held. Returns
  // what is missing, or nothing.
  std::string AwaitEnds() {
    std::string open;
    integration::Await(
        [&] {
          open = Open();
          return open.empty();
        },
        kEndMax, absl::Milliseconds(200));
    return open;
  }
  std::string Open() {
    const auto usage = policies_->Usage(policy_);
    if (!usage.ok()) return usage.status().ToString();
    if (usage->held_count() > 0 || usage->waiting_count() > 0)
      return absl::StrCat(usage->held_count(), " tokens are held, ", usage->waiting_count(),
                          " events wait");
    const auto ended = api_->ListEvents("state = ENDED");
    if (!ended.ok()) return ended.status().ToString();
    size_t succeeded = 0;
    for (const v1::Event& event : *ended) succeeded += event.outcome() == v1::SUCCEEDED ? 1 : 0;
    if (succeeded == all() && ended->size() == all()) return "";
    return absl::StrCat(ended->size(), " events have ended, of which ", succeeded, " succeeded");
  }

  const OrderOptions options_;
  integration::Platform platform_;
  std::unique_ptr<OrderConsumer> consumer_;
  std::unique_ptr<integration::ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
  std::string policy_;
  std::vector<OrderFault> faults_;
  OrderResult result_;
};

}  // namespace

absl::StatusOr<OrderResult> RunOrder(const OrderOptions& options) {
  return OrderedRun(options).Do();
}

std::string Report(const OrderOptions& options, const OrderResult& result) {
  std::string report = absl::StrFormat(
      "%d keys of %d events: %d kills in %s, %d arrivals, %d accepted, %d refused, %d repeated, at "
      "most %d out: %s\n",
      options.keys, options.events_of_key, result.kills,
      absl::FormatDuration(absl::Trunc(result.took, absl::Milliseconds(1))),
      result.verdict.arrivals, result.verdict.accepted, result.verdict.refused,
      result.verdict.repeats, result.verdict.out_max,
      result.verdict.violations.empty() ? "in order" : "FAILED");
  for (const auto& violation : result.verdict.violations)
    absl::StrAppend(&report, "  ", violation.rule, ": ", violation.what, "\n");
  if (!result.verdict.violations.empty())
    absl::StrAppend(&report, "  logs in ", options.folder, "\n");
  return report;
}

}  // namespace escapement::chaos
