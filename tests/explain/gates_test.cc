// Why an event waits, proved: for each gate, and each two that can be shut together, Explain names
// exactly those that are shut. While the named one is shut the event stays, also when every other
// one has been opened. When it opens, the event goes within a second.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/kv/group_parts.h"
#include "common/kv/layout.h"
#include "common/lease/lease_table.h"
#include "common/sim/sim_random.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/explain/explain_world.h"

namespace escapement::explain {
namespace gates_test {

using Strings = std::vector<std::string>;
using handler::DeliveryResult;
using handler::DeliveryStatus;

constexpr char kTenant[] = "tenants/default";
constexpr char kSchedule[] = "tenants/default/schedules/s";
constexpr char kUri[] = "http://x.example/";       // the event in question goes there
constexpr char kOtherUri[] = "http://b.example/";  // events that hold tokens have gone there

// In the order in which events meet them.
const char* const kGates[] = {"CLOCK_HELD",    "NO_OWNER partition",
                              "NOT_EMITTED",   "SCHEDULE_PAUSED",
                              "NOT_DUE",       "RETRY",
                              "OVERLAP",       "NO_OWNER policy shard",
                              "POLICY_PAUSED", "POLICY_LIMIT",
                              "POLICY_RATE",   "KEY_LIMIT",
                              "KEY_RATE",      "NO_OWNER handler",
                              "TARGET_DOWN",   "BACKPRESSURE"};

enum class Of { kOneOff, kRun };

struct Setting {
  Of of = Of::kOneOff;
  bool limited = false;
};

DeliveryResult Result(DeliveryStatus status, int32_t code = 0) {
  DeliveryResult result;
  result.status = status;
  result.status_code = code;
  if (status != DeliveryStatus::kAccepted) result.message = absl::StrCat("answer ", code);
  return result;
}

// One world with one event, held up by a set of gates.
class Case {
 public:
  Case(Setting setting, Strings shut) : setting_(setting), shut_(std::move(shut)) {
    world_.answer = [this](const handler::DeliveryAttempt& attempt) { return Answer(attempt); };
  }

  bool Has(const std::string& gate) const { return absl::c_linear_search(shut_, gate); }

  void Shut() {
    if (setting_.limited) MakePolicy();
    if (setting_.of == Of::kRun) MakeSchedule();
    if (Has("OVERLAP")) BeginFormerRun();
    if (Has("RETRY")) {
      MakeEvent(world_.Now() + absl::Seconds(12));
      ASSERT_TRUE(world_.RunUntil([this] { return Arrivals() == 1; }, absl::Seconds(14)));
      world_.world.AdvanceBy(absl::Seconds(1));
    }
    if (setting_.limited) UpdatePolicy(open_);
    if (Has("POLICY_PAUSED")) {
      v1::PausePolicyRequest request;
      request.set_name(absl::StrCat(kTenant, "/policies/p"));
      request.set_reason("by hand");
      ASSERT_TRUE(world_.Call(&master::PolicyApi::PausePolicy, request).ok());
    }
    if (Has("SCHEDULE_PAUSED")) {
      v1::PauseScheduleRequest request;
      request.set_name(kSchedule);
      request.set_reason("by hand");
      ASSERT_TRUE(world_.Call(&master::ScheduleApi::PauseSchedule, request).ok());
    }
    if (Has("CLOCK_HELD")) {
      world_.store->SetWallClockOffset(absl::Hours(3));
      ASSERT_TRUE(world_.RunUntil([this] { return ClockIsHeld(); }, absl::Minutes(1)));
    }
    if (Has("NO_OWNER partition") || Has("NOT_EMITTED"))
      world_.KillOwner(*world_.emitter, "partition");
    if (Has("NOT_EMITTED")) SetGhost(true);
    if (Has("NO_OWNER policy shard")) world_.KillOwner(*world_.tokens, "policy_shard");
    if (Has("NO_OWNER handler")) world_.KillOwner(*world_.handler, "queue_shard");
    if (Has("TARGET_DOWN")) TakeTargetDown();
    if (Has("BACKPRESSURE")) AskForPause();
    if (Has("RETRY")) return;
    MakeEvent(world_.Now() + (Has("NOT_DUE") ? absl::Seconds(90) : absl::Seconds(12)));
    if (!Has("NOT_DUE")) world_.world.RunUntil(due_ + absl::Seconds(1));
    // A handler tells of its targets every two seconds.
    if (Has("NOT_DUE") || Has("TARGET_DOWN") || Has("BACKPRESSURE"))
      world_.world.AdvanceBy(absl::Seconds(3));
  }

  // The gates that Explain names.
  Strings Named() {
    Strings names = ExplainWorld::Names(world_.Explain(name_).gates());
    for (std::string& name : names) {
      if (absl::StartsWith(name, "NO_OWNER queue") || absl::StartsWith(name, "NO_OWNER all"))
        name = "NO_OWNER handler";
    }
    return names;
  }
  std::string Shown() { return world_.Explain(name_).DebugString(); }

  // Opens the gate, and returns when it is open. `last`: all others are open.
  void Open(const std::string& gate, bool last) {
    if (gate == "NOT_DUE" || gate == "RETRY" || gate == "BACKPRESSURE") {
      absl::Time opens = OpenTime(gate);
      ASSERT_GT(opens, world_.Now());
      // The handler tells it in store time, which passes at another pace than its own clock.
      while (opens > world_.Now() + absl::Minutes(2)) {
        world_.world.RunUntil(opens - absl::Minutes(1));
        opens = OpenTime(gate);
      }
      world_.world.RunUntil(opens - absl::Milliseconds(50));
      EXPECT_FALSE(Gone()) << "before the gate opened";
      world_.world.RunUntil(opens);
    } else if (gate == "TARGET_DOWN") {
      target_down_ = false;
      const absl::Time opens = OpenTime(gate);
      ASSERT_GT(opens, world_.Now());
      world_.world.RunUntil(opens);
      if (!last) {
        ASSERT_TRUE(world_.RunUntil([this] { return probed_well_; }, absl::Seconds(2)));
      }
    } else if (gate == "SCHEDULE_PAUSED") {
      v1::ResumeScheduleRequest request;
      request.set_name(kSchedule);
      ASSERT_TRUE(world_.Call(&master::ScheduleApi::ResumeSchedule, request).ok());
    } else if (gate == "CLOCK_HELD") {
      world_.store->SetWallClockOffset(absl::ZeroDuration());
      ASSERT_TRUE(world_.RunUntil([this] { return !ClockIsHeld(); }, absl::Minutes(1)));
    } else if (gate == "NO_OWNER partition") {
      world_.StartOwner(*world_.emitter, "partition");
    } else if (gate == "NOT_EMITTED") {
      SetGhost(false);
      world_.StartOwner(*world_.emitter, "partition");
    } else if (gate == "OVERLAP") {
      EndFormerRun();
    } else if (gate == "NO_OWNER policy shard") {
      world_.StartOwner(*world_.tokens, "policy_shard");
    } else if (gate == "NO_OWNER handler") {
      world_.StartOwner(*world_.handler, "queue_shard");
    } else if (gate == "POLICY_PAUSED") {
      v1::ResumePolicyRequest request;
      request.set_name(absl::StrCat(kTenant, "/policies/p"));
      ASSERT_TRUE(world_.Call(&master::PolicyApi::ResumePolicy, request).ok());
    } else {
      open_.insert(gate);
      UpdatePolicy(open_);
    }
  }

  // The event has arrived at the consumer: after a retry, once more.
  bool Gone() const { return Arrivals() > (Has("RETRY") ? 1 : 0); }
  void Wait(absl::Duration time) { world_.world.AdvanceBy(time); }
  bool GoesWithin(absl::Duration time) {
    return world_.RunUntil([this] { return Gone(); }, time);
  }

 private:
  int Arrivals() const {
    return static_cast<int>(
        absl::c_count_if(world_.arrivals, [this](const ExplainWorld::Arrival& arrival) {
          return setting_.of == Of::kRun
                     ? !arrival.occurrence.empty() && arrival.occurrence == occurrence_
                     : absl::StartsWith(arrival.event_id, "x");
        }));
  }

  std::optional<DeliveryResult> Answer(const handler::DeliveryAttempt& attempt) {
    const handler::DeliveryContext& context = *attempt.context;
    if (!absl::StartsWith(context.definition->delivery().target().http().uri(), kUri))
      return Result(DeliveryStatus::kAccepted);
    if (target_down_) return Result(DeliveryStatus::kUnknown, 0);
    probed_well_ = true;
    if (absl::StartsWith(attempt.event_id, "busy") && attempt.attempt == 1) {
      DeliveryResult busy = Result(DeliveryStatus::kFailed, 429);
      // It opens by time: before the other gate, or after it.
      busy.retry_after = shut_[0] == "BACKPRESSURE" ? absl::Seconds(50) : absl::Hours(2);
      return busy;
    }
    const bool event = absl::StartsWith(attempt.event_id, "x") ||
                       (!context.occurrence.empty() && context.occurrence == occurrence_);
    // A bad answer to one event alone.
    if (event && Has("RETRY") && attempt.attempt == 1) return Result(DeliveryStatus::kFailed, 409);
    if (!context.occurrence.empty() && !event && !setting_.limited) return std::nullopt;
    return Result(DeliveryStatus::kAccepted);
  }

  absl::Time OpenTime(const std::string& gate) {
    const v1::EventExplanation answer = world_.Explain(name_);
    const auto kinds = ExplainWorld::Names(answer.gates());
    for (int i = 0; i < answer.gates_size(); ++i) {
      if (kinds[static_cast<size_t>(i)] == gate)
        return FromMicros(TimestampMicros(answer.gates(i).open_time()).value_or(0));
    }
    return absl::InfinitePast();
  }

  bool ClockIsHeld() const {
    return world_.Rows(kv::ColumnFamily::kMeta).contains(std::string(kv::kClockHoldKey));
  }

  // The limits are shut unless they are open: one event holds a token and has used the rates.
  v1::ThrottlePolicy Policy(const std::set<std::string>& open) const {
    const auto is_shut = [&](const char* gate) { return Has(gate) && !open.contains(gate); };
    // Others take a token before the event waits.
    const int64_t burst = 1 + (Has("OVERLAP") ? 1 : 0) + (Has("RETRY") ? 1 : 0);
    v1::ThrottlePolicy policy;
    policy.set_name(absl::StrCat(kTenant, "/policies/p"));
    policy.set_max_concurrent(is_shut("POLICY_LIMIT") ? 1 : 100);
    policy.mutable_hold_timeout()->set_seconds(3600);
    if (is_shut("POLICY_RATE")) {
      policy.set_max_per_second(0.001);
      policy.set_burst(burst);
    }
    if (!Has("KEY_LIMIT") && !Has("KEY_RATE")) return policy;
    policy.mutable_per_key()->set_max_concurrent(is_shut("KEY_LIMIT") ? 1 : 100);
    if (is_shut("KEY_RATE")) {
      policy.mutable_per_key()->set_max_per_second(0.001);
      policy.mutable_per_key()->set_burst(burst);
    }
    return policy;
  }

  void MakePolicy() {
    v1::CreatePolicyRequest request;
    request.set_parent(kTenant);
    request.set_policy_id("p");
    *request.mutable_policy() = Policy({"POLICY_LIMIT", "KEY_LIMIT"});
    request.mutable_policy()->clear_name();
    ASSERT_TRUE(world_.Call(&master::PolicyApi::CreatePolicy, request).ok());
    v1::CreateEventRequest holder;
    holder.set_parent(kTenant);
    holder.set_event_id("holder");
    holder.mutable_event()->mutable_target()->mutable_http()->set_uri(kOtherUri);
    SetLimits(*holder.mutable_event());
    ASSERT_TRUE(world_.Call(&master::EventApi::CreateEvent, holder).ok());
    ASSERT_TRUE(world_.RunUntil([this] { return !world_.arrivals.empty(); }, absl::Seconds(5)));
    world_.world.AdvanceBy(absl::Seconds(1));
  }

  void UpdatePolicy(const std::set<std::string>& open) {
    v1::UpdatePolicyRequest request;
    *request.mutable_policy() = Policy(open);
    request.mutable_update_mask()->add_paths("*");
    const auto updated = world_.Call(&master::PolicyApi::UpdatePolicy, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }

  template <typename Message>
  void SetLimits(Message& message) const {
    message.set_policy(absl::StrCat(kTenant, "/policies/p"));
    if (Has("KEY_LIMIT") || Has("KEY_RATE")) message.set_policy_key("k");
    message.set_completion(v1::ON_RELEASE);
  }

  template <typename Message>
  void SetDelivery(Message& message) const {
    message.mutable_target()->mutable_http()->set_uri(kUri);
    message.mutable_retry_policy()->mutable_min_backoff()->set_seconds(600);
    message.mutable_retry_policy()->mutable_max_backoff()->set_seconds(600);
    message.mutable_delivery_timeout()->set_seconds(3600);
    if (setting_.limited) SetLimits(message);
  }

  void MakeSchedule() {
    v1::CreateScheduleRequest request;
    request.set_parent(kTenant);
    request.set_schedule_id("s");
    v1::Schedule& schedule = *request.mutable_schedule();
    SetTimestamp(ToMicros(world_.Now() + absl::Hours(10)), *schedule.add_times());
    SetDelivery(schedule);
    if (Has("OVERLAP")) schedule.set_overlap_policy(v1::Schedule::BUFFER_ONE);
    const auto made = world_.Call(&master::ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  // The consumer works on it, or holds its token.
  void BeginFormerRun() {
    v1::TriggerScheduleRequest request;
    request.set_name(kSchedule);
    ASSERT_TRUE(world_.Call(&master::ScheduleApi::TriggerSchedule, request).ok());
    const size_t before = world_.arrivals.size();
    ASSERT_TRUE(world_.RunUntil([&] { return world_.arrivals.size() > before; }, absl::Seconds(5)));
    former_token_ = world_.arrivals.back().token;
    world_.world.AdvanceBy(absl::Seconds(1));
  }

  // Returns when the emitter has closed the run.
  void EndFormerRun() {
    if (setting_.limited) {
      world_.Complete(former_token_);
    } else {
      world_.AnswerHanging();
    }
    // The event's own run may begin at the same moment.
    const auto closed = [this] {
      for (const auto& [key, value] : world_.Rows(kv::ColumnFamily::kRuns)) {
        storage::v1::RunRecord run;
        if (run.ParseFromString(value) && run.complete_time_micros() != 0) return true;
      }
      return false;
    };
    ASSERT_TRUE(world_.RunUntil(closed, absl::Seconds(10)));
  }

  void MakeEvent(absl::Time due) {
    due_ = absl::FromUnixSeconds(absl::ToUnixSeconds(due));
    if (setting_.of == Of::kOneOff) {
      v1::CreateEventRequest request;
      request.set_parent(kTenant);
      request.set_event_id("x");
      SetTimestamp(ToMicros(due_), *request.mutable_event()->mutable_due_time());
      SetDelivery(*request.mutable_event());
      const auto made = world_.Call(&master::EventApi::CreateEvent, request);
      ASSERT_TRUE(made.ok()) << made.status();
      name_ = made->name();
      return;
    }
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name(kSchedule);
    SetTimestamp(ToMicros(due_), *request.mutable_schedule()->add_times());
    // A schedule that has finished cannot be paused.
    SetTimestamp(ToMicros(due_ + absl::Hours(100)), *request.mutable_schedule()->add_times());
    request.mutable_update_mask()->add_paths("times");
    const auto updated = world_.Call(&master::ScheduleApi::UpdateSchedule, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
    occurrence_ = cron::FormatInstantOccurrence(due_);
    name_ = absl::StrCat(kSchedule, "/runs/", occurrence_, "/events/0");
  }

  v1::CreateEventRequest Probe(const std::string& id) const {
    v1::CreateEventRequest request;
    request.set_parent(kTenant);
    request.set_event_id(id);
    // It has another path: handlers tell apart groups of events that fail at a target.
    request.mutable_event()->mutable_target()->mutable_http()->set_uri(absl::StrCat(kUri, "probe"));
    return request;
  }

  storage::v1::TargetRowRecord TargetRow() const {
    storage::v1::TargetRowRecord row;
    for (const auto& [key, value] : world_.Rows(kv::ColumnFamily::kTargetStates)) {
      storage::v1::TargetRowRecord each;
      if (each.ParseFromString(value) && absl::StrContains(each.state().target_key(), "x.example"))
        row = each;
    }
    return row;
  }

  // Returns just after a probe has failed, with a minute to the next one.
  void TakeTargetDown() {
    target_down_ = true;
    for (int i = 0; i < 30; ++i) {
      v1::CreateEventRequest request = Probe(absl::StrCat("chaff", i));
      v1::RetryPolicy& retry = *request.mutable_event()->mutable_retry_policy();
      retry.set_max_attempts(i == 0 ? 100 : 1);
      retry.mutable_min_backoff()->set_seconds(1);
      retry.mutable_max_backoff()->set_seconds(1);
      ASSERT_TRUE(world_.Call(&master::EventApi::CreateEvent, request).ok());
    }
    const auto long_shut = [this] {
      const absl::Time until = FromMicros(TargetRow().state().open_until_micros());
      return TargetRow().down_since_micros() != 0 && until > world_.Now() + absl::Seconds(55);
    };
    ASSERT_TRUE(world_.RunUntil(long_shut, absl::Minutes(10)));
    probed_well_ = false;
  }

  void AskForPause() {
    ASSERT_TRUE(world_.Call(&master::EventApi::CreateEvent, Probe("busy")).ok());
    const auto paused = [this] { return TargetRow().paused_until_micros() != 0; };
    ASSERT_TRUE(world_.RunUntil(paused, absl::Seconds(10)));
  }

  // A living process that does nothing holds the partitions.
  void SetGhost(bool holds) {
    kv::Group group;
    for (const auto& [key, value] : world_.Rows(kv::ColumnFamily::kLeases)) {
      const auto row = lease::DecodeLeaseValue(value);
      if (!lease::LeaseIndexOf("partition", key).has_value() || !row.has_value()) continue;
      std::string lease = lease::EncodeLeaseValue(row->epoch + 1, holds ? "ghost" : "");
      const std::string end =
          kv::EncodeU64(static_cast<uint64_t>(ToMicros(world_.Now() + absl::Hours(1))));
      if (holds) lease.replace(lease::kLeaseStampOffset, end.size(), end);
      group.mutations.push_back(kv::Put(kv::ColumnFamily::kLeases, key, lease));
    }
    world_.Commit(std::move(group));
  }

  const Setting setting_;
  const Strings shut_;
  ExplainWorld world_;
  std::set<std::string> open_;  // limits that have been opened
  std::string name_;
  std::string occurrence_;
  absl::Time due_;
  bool target_down_ = false;
  bool probed_well_ = false;
  std::string former_token_;
};

// Shuts the gates, checks that they are named, and opens them in this order.
void Prove(Setting setting, Strings gates) {
  SCOPED_TRACE(absl::StrCat(setting.of == Of::kRun ? "run" : "one-off",
                            setting.limited ? " with limits: " : ": ", absl::StrJoin(gates, ", ")));
  Case test(setting, gates);
  test.Shut();
  if (testing::Test::HasFatalFailure()) return;
  const auto in_order = [](const Strings& wanted) {
    Strings sorted;
    for (const char* gate : kGates) {
      if (absl::c_linear_search(wanted, gate)) sorted.push_back(gate);
    }
    return sorted;
  };
  ASSERT_EQ(test.Named(), in_order(gates)) << test.Shown();
  while (gates.size() > 1) {
    test.Open(gates[0], false);
    if (testing::Test::HasFatalFailure()) return;
    gates.erase(gates.begin());
    test.Wait(absl::Seconds(3));
    EXPECT_FALSE(test.Gone()) << "in spite of " << gates[0];
    ASSERT_EQ(test.Named(), in_order(gates)) << test.Shown();
  }
  ASSERT_FALSE(test.Gone());
  test.Open(gates[0], true);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_TRUE(test.GoesWithin(absl::Seconds(1))) << test.Shown();
}

// Each gate alone, and each two in both orders, unless `apart` says that they exclude each other.
void ProveAll(Setting setting, const Strings& gates,
              const std::vector<std::set<std::string>>& apart) {
  for (const std::string& gate : gates) Prove(setting, {gate});
  for (const std::string& a : gates) {
    for (const std::string& b : gates) {
      if (a == b || absl::c_linear_search(apart, std::set<std::string>{a, b})) continue;
      Prove(setting, {a, b});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A retry that is due may be the next probe of a target that is down. So the target is opened
// first.
const std::set<std::string>& ProvedBelow() {
  static const auto* const two = new std::set<std::string>{"RETRY", "TARGET_DOWN"};
  return *two;
}

TEST(Gates, RetryAtATargetThatIsDown) {
  for (const Of of : {Of::kOneOff, Of::kRun}) {
    for (const bool limited : {false, true}) Prove({of, limited}, {"TARGET_DOWN", "RETRY"});
  }
}

TEST(Gates, OneOffEventWithoutLimits) {
  ProveAll({Of::kOneOff, false},
           {"NOT_DUE", "RETRY", "NO_OWNER handler", "TARGET_DOWN", "BACKPRESSURE"},
           {{"NOT_DUE", "RETRY"},
            ProvedBelow(),
            // A handler that is gone says nothing of its targets.
            {"NO_OWNER handler", "TARGET_DOWN"},
            {"NO_OWNER handler", "BACKPRESSURE"},
            // A target that asks for a pause answers.
            {"TARGET_DOWN", "BACKPRESSURE"}});
}

TEST(Gates, OneOffEventWithLimits) {
  ProveAll({Of::kOneOff, true},
           {"NOT_DUE", "RETRY", "NO_OWNER policy shard", "POLICY_PAUSED", "POLICY_LIMIT",
            "POLICY_RATE", "KEY_LIMIT", "KEY_RATE", "NO_OWNER handler", "TARGET_DOWN"},
           {{"NOT_DUE", "RETRY"}, ProvedBelow(), {"NO_OWNER handler", "TARGET_DOWN"}});
}

TEST(Gates, RunWithoutLimits) {
  ProveAll({Of::kRun, false},
           {"CLOCK_HELD", "NO_OWNER partition", "NOT_EMITTED", "SCHEDULE_PAUSED", "NOT_DUE",
            "RETRY", "OVERLAP", "NO_OWNER handler", "TARGET_DOWN", "BACKPRESSURE"},
           {{"NOT_DUE", "RETRY"},
            ProvedBelow(),
            {"NO_OWNER handler", "TARGET_DOWN"},
            {"NO_OWNER handler", "BACKPRESSURE"},
            {"TARGET_DOWN", "BACKPRESSURE"},
            // The partition is held by nobody, or by one who does not emit.
            {"NO_OWNER partition", "NOT_EMITTED"},
            // It is not late before it is due, nor while emission is held.
            {"NOT_DUE", "NOT_EMITTED"},
            {"CLOCK_HELD", "NOT_EMITTED"},
            // The resume emits an occurrence that was due in the pause.
            {"SCHEDULE_PAUSED", "NOT_EMITTED"},
            {"SCHEDULE_PAUSED", "CLOCK_HELD"},
            {"SCHEDULE_PAUSED", "NO_OWNER partition"},
            // It has been emitted and launched.
            {"RETRY", "CLOCK_HELD"},
            {"RETRY", "NO_OWNER partition"},
            {"RETRY", "NOT_EMITTED"},
            {"RETRY", "OVERLAP"},
            // The former run ends only with the help of the emitter, the handler and the target.
            {"OVERLAP", "NO_OWNER partition"},
            {"OVERLAP", "NOT_EMITTED"},
            {"OVERLAP", "NO_OWNER handler"},
            {"OVERLAP", "TARGET_DOWN"},
            {"OVERLAP", "BACKPRESSURE"}});
}

TEST(Gates, RunWithLimits) {
  const Strings limits = {"NO_OWNER policy shard", "POLICY_PAUSED", "POLICY_LIMIT",
                          "POLICY_RATE",           "KEY_LIMIT",     "KEY_RATE",
                          "NO_OWNER handler",      "TARGET_DOWN"};
  const Strings others = {
      "CLOCK_HELD", "NO_OWNER partition", "NOT_EMITTED", "SCHEDULE_PAUSED", "NOT_DUE", "RETRY",
      "OVERLAP"};
  for (const std::string& limit : limits) {
    for (const std::string& other : others) {
      // The former run ends only with the help of the token manager.
      if (other == "OVERLAP" && limit == "NO_OWNER policy shard") continue;
      if (std::set<std::string>{limit, other} == ProvedBelow()) continue;
      Prove({Of::kRun, true}, {limit, other});
      Prove({Of::kRun, true}, {other, limit});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Before it is due, a paused run needs its emitter, too.
TEST(Gates, PausedRunThatIsNotDueNeedsItsEmitter) {
  for (const char* gate : {"CLOCK_HELD", "NO_OWNER partition"}) {
    Prove({Of::kRun, false}, {"SCHEDULE_PAUSED", gate, "NOT_DUE"});
    Prove({Of::kRun, false}, {gate, "SCHEDULE_PAUSED", "NOT_DUE"});
  }
}

TEST(Gates, AllThatCanBeShutTogether) {
  const Strings limits = {"POLICY_PAUSED", "POLICY_LIMIT", "POLICY_RATE", "KEY_LIMIT", "KEY_RATE"};
  for (const Of of : {Of::kOneOff, Of::kRun}) {
    Strings gates = limits;
    if (of == Of::kRun) gates.insert(gates.end(), {"NO_OWNER partition", "CLOCK_HELD"});
    gates.insert(gates.end(), {"NO_OWNER policy shard", "NO_OWNER handler", "NOT_DUE"});
    Prove({of, true}, gates);
  }
}

TEST(Gates, AnyOfThemInAnyOrder) {
  sim::SimRandom random(1, "gates");
  for (int i = 0; i < 60; ++i) {
    const Of of = random.Below(2) == 0 ? Of::kOneOff : Of::kRun;
    Strings all = {"POLICY_PAUSED", "POLICY_LIMIT",          "POLICY_RATE",     "KEY_LIMIT",
                   "KEY_RATE",      "NO_OWNER policy shard", "NO_OWNER handler"};
    if (of == Of::kRun) all.push_back(random.Below(2) == 0 ? "SCHEDULE_PAUSED" : "NOT_EMITTED");
    Strings gates;
    while (!all.empty()) {
      const auto next = all.begin() + static_cast<ptrdiff_t>(random.Below(all.size()));
      if (random.Below(2) == 0) gates.push_back(*next);
      all.erase(next);
    }
    if (!gates.empty()) Prove({of, true}, gates);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace gates_test
}  // namespace escapement::explain
