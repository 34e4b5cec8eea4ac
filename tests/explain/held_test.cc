// Events that somebody has, several limits of one event, and where the time of an event went; with
// living services.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/explain/explain_world.h"

namespace escapement::explain {
namespace held_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTenant[] = "tenants/default";
constexpr char kEvent[] = "tenants/default/events/e";
constexpr char kUri[] = "http://x.example/";

void MakePolicy(ExplainWorld& world, const std::string& id, v1::ThrottlePolicy policy) {
  v1::CreatePolicyRequest request;
  request.set_parent(kTenant);
  request.set_policy_id(id);
  *request.mutable_policy() = std::move(policy);
  const auto made = world.Call(&master::PolicyApi::CreatePolicy, request);
  ASSERT_TRUE(made.ok()) << made.status();
}

v1::ThrottlePolicy AtMost(int64_t events) {
  v1::ThrottlePolicy policy;
  policy.set_max_concurrent(events);
  return policy;
}

void MakeEvent(ExplainWorld& world, const std::string& id,
               const std::vector<std::string>& policies) {
  v1::CreateEventRequest request;
  request.set_parent(kTenant);
  request.set_event_id(id);
  v1::Event& event = *request.mutable_event();
  event.mutable_target()->mutable_http()->set_uri(kUri);
  event.mutable_delivery_timeout()->set_seconds(600);
  event.mutable_retry_policy()->mutable_min_backoff()->set_seconds(60);
  event.mutable_retry_policy()->mutable_max_backoff()->set_seconds(60);
  if (!policies.empty()) event.set_completion(v1::ON_RELEASE);
  for (const std::string& policy : policies) event.add_limits()->set_policy(policy);
  const auto made = world.Call(&master::EventApi::CreateEvent, request);
  ASSERT_TRUE(made.ok()) << made.status();
}

ExplainWorld::Strings GatesOf(ExplainWorld& world) {
  return ExplainWorld::Names(world.Explain(kEvent).gates());
}

bool Ended(ExplainWorld& world) {
  v1::GetEventRequest request;
  request.set_name(kEvent);
  const auto event = world.Call(&master::EventApi::GetEvent, request);
  return event.ok() && event->state() == v1::ENDED;
}

void AwaitArrivals(ExplainWorld& world, size_t count) {
  ASSERT_TRUE(world.RunUntil([&] { return world.arrivals.size() >= count; }, absl::Minutes(1)));
  world.world.AdvanceBy(absl::Milliseconds(500));
}

TEST(Held, EventThatIsSentEndsWhenItsTargetAnswers) {
  ExplainWorld world;
  world.answer = [](const handler::DeliveryAttempt&) { return std::nullopt; };
  MakeEvent(world, "e", {});
  AwaitArrivals(world, 1);
  EXPECT_THAT(GatesOf(world), ElementsAre("BEING_SENT"));
  // Its handler dies, and the next one sends it again.
  world.KillOwner(*world.handler, "queue_shard");
  EXPECT_THAT(GatesOf(world), ElementsAre("NO_OWNER queue shard"));
  world.world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(world.arrivals.size(), 1u);
  world.StartOwner(*world.handler, "queue_shard");
  EXPECT_THAT(GatesOf(world), ElementsAre("BEING_SENT"));
  ASSERT_TRUE(world.RunUntil([&] { return world.arrivals.size() == 2; }, absl::Minutes(15)));
  EXPECT_THAT(GatesOf(world), ElementsAre("BEING_SENT"));
  EXPECT_FALSE(Ended(world));
  world.AnswerHanging();
  world.world.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(Ended(world));
}

TEST(Held, EventWithItsConsumerEndsWhenItsTokenComesBack) {
  ExplainWorld world;
  MakePolicy(world, "p", AtMost(1));
  MakeEvent(world, "e", {"p"});
  AwaitArrivals(world, 1);
  const v1::EventExplanation held = world.Explain(kEvent);
  EXPECT_THAT(ExplainWorld::Names(held.gates()), ElementsAre("HELD_BY_CONSUMER"));
  EXPECT_TRUE(held.gates(0).has_since_time());
  EXPECT_TRUE(held.gates(0).has_open_time());  // the end of its hold time
  // The phases before are known already.
  ASSERT_GE(held.phases_size(), 2);
  EXPECT_EQ(held.phases(0).kind(), v1::Phase::TOKEN);

  world.KillOwner(*world.tokens, "policy_shard");
  EXPECT_THAT(GatesOf(world), ElementsAre("NO_OWNER policy shard", "HELD_BY_CONSUMER"));
  world.StartOwner(*world.tokens, "policy_shard");
  world.world.AdvanceBy(absl::Seconds(3));
  EXPECT_THAT(GatesOf(world), ElementsAre("HELD_BY_CONSUMER"));
  EXPECT_FALSE(Ended(world));
  world.Complete(world.arrivals[0].token);
  world.world.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(Ended(world));
}

TEST(Held, CompletionWaitsForTheOwnerOfThePolicyShard) {
  ExplainWorld world;
  MakePolicy(world, "p", AtMost(1));
  MakeEvent(world, "e", {"p"});
  AwaitArrivals(world, 1);
  world.KillOwner(*world.tokens, "policy_shard");
  world.Complete(world.arrivals[0].token);
  world.world.AdvanceBy(absl::Seconds(3));
  EXPECT_THAT(GatesOf(world), ElementsAre("NO_OWNER policy shard"));
  EXPECT_FALSE(Ended(world));
  world.StartOwner(*world.tokens, "policy_shard");
  world.world.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(Ended(world));
}

TEST(Held, EachOfSeveralLimitsHoldsTheEventUp) {
  for (const bool p_first : {true, false}) {
    ExplainWorld world;
    for (const char* id : {"p", "q", "r"}) MakePolicy(world, id, AtMost(1));
    MakeEvent(world, "a", {"p"});
    MakeEvent(world, "b", {"q"});
    AwaitArrivals(world, 2);
    MakeEvent(world, "e", {"p", "q", "r"});
    world.world.AdvanceBy(absl::Seconds(2));
    const v1::EventExplanation answer = world.Explain(kEvent);
    ASSERT_THAT(ExplainWorld::Names(answer.gates()), ElementsAre("POLICY_LIMIT", "POLICY_LIMIT"));
    EXPECT_EQ(answer.gates(0).subject(), "tenants/default/policies/p");
    EXPECT_EQ(answer.gates(0).holders(0).event(), "tenants/default/events/a");
    EXPECT_EQ(answer.gates(1).subject(), "tenants/default/policies/q");
    EXPECT_EQ(answer.gates(1).holders(0).event(), "tenants/default/events/b");
    const bool a_is_first = world.arrivals[0].event_id == "a";
    const std::string a = world.arrivals[a_is_first ? 0 : 1].token;
    const std::string b = world.arrivals[a_is_first ? 1 : 0].token;
    world.Complete(p_first ? a : b);
    world.world.AdvanceBy(absl::Seconds(3));
    EXPECT_EQ(world.arrivals.size(), 2u);
    const v1::EventExplanation left = world.Explain(kEvent);
    ASSERT_EQ(left.gates_size(), 1);
    EXPECT_EQ(left.gates(0).subject(),
              p_first ? "tenants/default/policies/q" : "tenants/default/policies/p");
    world.Complete(p_first ? b : a);
    EXPECT_TRUE(world.RunUntil([&] { return world.arrivals.size() == 3; }, absl::Seconds(1)));
  }
}

TEST(Held, RetryThatKeepsItsTokenWaitsForItsPolicyToo) {
  for (const bool time_first : {true, false}) {
    ExplainWorld world;
    v1::ThrottlePolicy policy = AtMost(1);
    policy.set_retries(v1::ThrottlePolicy::KEEP_TOKEN);
    MakePolicy(world, "p", std::move(policy));
    world.answer = [&](const handler::DeliveryAttempt& attempt) {
      handler::DeliveryResult result;
      result.status = attempt.attempt == 1 ? handler::DeliveryStatus::kFailed
                                           : handler::DeliveryStatus::kAccepted;
      result.status_code = attempt.attempt == 1 ? 409 : 200;
      return result;
    };
    MakeEvent(world, "e", {"p"});
    AwaitArrivals(world, 1);
    const v1::EventExplanation answer = world.Explain(kEvent);
    ASSERT_THAT(ExplainWorld::Names(answer.gates()), ElementsAre("RETRY"));
    EXPECT_THAT(answer.gates(0).detail(), HasSubstr("It keeps its token."));
    const absl::Time retry = FromMicros(TimestampMicros(answer.gates(0).open_time()).value_or(0));
    v1::PausePolicyRequest pause;
    pause.set_name("tenants/default/policies/p");
    ASSERT_TRUE(world.Call(&master::PolicyApi::PausePolicy, pause).ok());
    EXPECT_THAT(GatesOf(world), ElementsAre("RETRY", "POLICY_PAUSED"));
    const v1::Gate paused = world.Explain(kEvent).gates(1);
    EXPECT_TRUE(paused.has_since_time());
    EXPECT_EQ(paused.paused_by(), "anonymous");
    v1::ResumePolicyRequest resume;
    resume.set_name("tenants/default/policies/p");
    if (time_first) {
      world.world.RunUntil(retry + absl::Seconds(3));
      EXPECT_EQ(world.arrivals.size(), 1u);
      // It sleeps on for a little while its policy is paused.
      EXPECT_EQ(GatesOf(world).back(), "POLICY_PAUSED");
      ASSERT_TRUE(world.Call(&master::PolicyApi::ResumePolicy, resume).ok());
      EXPECT_TRUE(world.RunUntil([&] { return world.arrivals.size() == 2; }, absl::Seconds(1)));
    } else {
      ASSERT_TRUE(world.Call(&master::PolicyApi::ResumePolicy, resume).ok());
      world.world.RunUntil(retry - absl::Milliseconds(10));
      EXPECT_EQ(world.arrivals.size(), 1u);
      EXPECT_THAT(GatesOf(world), ElementsAre("RETRY"));
      EXPECT_TRUE(world.RunUntil([&] { return world.arrivals.size() == 2; }, absl::Seconds(1)));
    }
  }
}

TEST(Held, EachEventOfAnEvenWindowHasItsPlace) {
  ExplainWorld world;
  v1::CreateScheduleRequest request;
  request.set_parent(kTenant);
  request.set_schedule_id("s");
  v1::Schedule& schedule = *request.mutable_schedule();
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(world.Now()) + 20);
  SetTimestamp(ToMicros(due), *schedule.add_times());
  schedule.set_event_count(10);
  schedule.mutable_window()->mutable_duration()->set_seconds(100);
  schedule.mutable_window()->set_pacing(v1::Window::EVEN);
  schedule.mutable_target()->mutable_http()->set_uri(kUri);
  ASSERT_TRUE(world.Call(&master::ScheduleApi::CreateSchedule, request).ok());
  world.world.RunUntil(due + absl::Seconds(1));
  const std::string event = absl::StrCat("tenants/default/schedules/s/runs/",
                                         cron::FormatInstantOccurrence(due), "/events/7");
  const v1::EventExplanation answer = world.Explain(event);
  ASSERT_THAT(ExplainWorld::Names(answer.gates()), ElementsAre("NOT_DUE"));
  EXPECT_THAT(answer.gates(0).detail(), HasSubstr("place in the window"));
  EXPECT_EQ(FromMicros(TimestampMicros(answer.gates(0).open_time()).value_or(0)),
            due + absl::Seconds(70));
  world.world.RunUntil(due + absl::Seconds(69.9));
  EXPECT_EQ(world.arrivals.size(), 7u);
  world.world.RunUntil(due + absl::Seconds(71));
  EXPECT_EQ(world.arrivals.size(), 8u);
  EXPECT_THAT(ExplainWorld::Names(world.Explain(event).gates()), IsEmpty());
}

// The phases follow one another, from when the event was due to its end.
TEST(Held, PhasesCoverTheTimeOfALateRun) {
  ExplainWorld world;
  world.answer = [](const handler::DeliveryAttempt& attempt) {
    handler::DeliveryResult result;
    result.status =
        attempt.attempt < 3 ? handler::DeliveryStatus::kFailed : handler::DeliveryStatus::kAccepted;
    result.status_code = attempt.attempt < 3 ? 409 : 200;
    return result;
  };
  v1::CreateScheduleRequest request;
  request.set_parent(kTenant);
  request.set_schedule_id("s");
  v1::Schedule& schedule = *request.mutable_schedule();
  const absl::Time due = absl::FromUnixSeconds(absl::ToUnixSeconds(world.Now()) + 20);
  SetTimestamp(ToMicros(due), *schedule.add_times());
  schedule.set_event_count(2);
  schedule.mutable_target()->mutable_http()->set_uri(kUri);
  ASSERT_TRUE(world.Call(&master::ScheduleApi::CreateSchedule, request).ok());
  world.KillOwner(*world.emitter, "partition");
  world.KillOwner(*world.handler, "queue_shard");
  world.world.RunUntil(due + absl::Seconds(10));
  world.StartOwner(*world.emitter, "partition");
  world.world.AdvanceBy(absl::Seconds(10));
  world.StartOwner(*world.handler, "queue_shard");
  ASSERT_TRUE(world.RunUntil([&] { return world.arrivals.size() == 6; }, absl::Minutes(10)));
  world.world.AdvanceBy(absl::Seconds(1));
  const v1::EventExplanation answer = world.Explain(absl::StrCat(
      "tenants/default/schedules/s/runs/", cron::FormatInstantOccurrence(due), "/events/1"));
  EXPECT_EQ(answer.status(), v1::Event::COMPLETED);
  std::vector<v1::Phase::Kind> kinds;
  absl::Time end = due;
  for (const v1::Phase& phase : answer.phases()) {
    kinds.push_back(phase.kind());
    EXPECT_EQ(FromMicros(TimestampMicros(phase.start_time()).value_or(0)), end)
        << answer.DebugString();
    end += ToDuration(phase.duration()).value_or(absl::ZeroDuration());
  }
  EXPECT_THAT(kinds, ElementsAre(v1::Phase::EMISSION, v1::Phase::QUEUE, v1::Phase::RETRIES,
                                 v1::Phase::TARGET));
  EXPECT_GE(ToDuration(answer.phases(0).duration()), absl::Seconds(10));
  EXPECT_GE(ToDuration(answer.phases(1).duration()), absl::Seconds(10));
}

}  // namespace held_test
}  // namespace escapement::explain
