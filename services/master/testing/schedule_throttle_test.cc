// Changes of throttled schedules: the rows that wait, and who uses which policy.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/key_codec.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/schedules/schedule_service.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_throttle_test {

using kv::ColumnFamily;

TEST(ScheduleThrottle, ThrottledScheduleWaitsAsOneRowAndRefersToItsPolicy) {
  ScheduleWorld bench(2, 4);
  v1::CreateScheduleRequest request = ValidSchedule("s", "* * * * * *");
  v1::Schedule& schedule = *request.mutable_schedule();
  schedule.set_event_count(1000);
  schedule.set_priority(3);
  schedule.set_policy(PutPolicy(bench.fixture, "p"));
  schedule.mutable_window()->mutable_duration()->set_seconds(60);
  schedule.mutable_window()->set_pacing(v1::Window::EVEN);
  schedule.mutable_on_complete()->mutable_http()->set_uri("http://h/done");
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy(), "tenants/default/policies/p");
  EXPECT_EQ(made->completion(), v1::ON_RELEASE);
  EXPECT_EQ(made->window().duration().seconds(), 60);
  EXPECT_EQ(made->window().pacing(), v1::Window::EVEN);
  EXPECT_EQ(made->window().on_close(), v1::Window::FINISH_LATE);
  EXPECT_EQ(made->on_complete().http().uri(), "http://h/done");
  EXPECT_EQ(made->on_complete().http().method(), "POST");
  const Uid uid = Uid::FromHex(made->uid());
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, {"p"}), Strings{"p"});
  EXPECT_TRUE(bench.fixture.Events().empty());
  const auto waiting = Waiting(bench.fixture);
  ASSERT_EQ(waiting.size(), 3u);  // 1, 2, 3
  EXPECT_EQ(waiting[0].first.policy, PolicyUid("default", "p"));
  EXPECT_EQ(waiting[0].first.priority, 3);
  EXPECT_EQ(waiting[0].first.due_time, bench.At(1));
  EXPECT_EQ(waiting[0].second.count(), 1000u);
  EXPECT_EQ(waiting[0].second.throttle().pace_count(), 1000u);
  EXPECT_TRUE(waiting[0].second.run_kept());
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 3u);
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kChildren)) {
    storage::v1::ChildRecord child;
    ASSERT_TRUE(child.ParseFromString(value));
    EXPECT_EQ(child.throttle().policy_id(), "p");
    EXPECT_TRUE(child.run_kept());
  }
  storage::v1::DefinitionRecord definition;
  ASSERT_TRUE(
      definition.ParseFromString(bench.fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
  EXPECT_EQ(definition.on_complete().retry().max_attempts(), 25u);
  EXPECT_EQ(definition.on_complete().delivery_timeout_micros(), 10'000'000);
}

TEST(ScheduleThrottle, PolicyKeyIsKeptAndGoesWithThePolicy) {
  ScheduleWorld bench(2, 4);
  v1::CreateScheduleRequest request = ValidSchedule("s", "* * * * * *");
  request.mutable_schedule()->set_policy_key("customer");
  EXPECT_EQ(FieldViolationsOf(bench.fixture.Call(&ScheduleApi::CreateSchedule, request).status())[0]
                .first,
            "schedule.policy_key");
  request.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "p"));
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy_key(), "customer");
  EXPECT_EQ(Waiting(bench.fixture).at(0).second.throttle().policy_key(), "customer");
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(made->name());
  update.mutable_update_mask()->add_paths("policy");
  const auto updated = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->policy(), "");
  EXPECT_EQ(updated->policy_key(), "");
}

TEST(ScheduleThrottle, PolicyWindowOrCompletionAloneMakesAScheduleThrottled) {
  struct Case {
    std::function<void(v1::Schedule&)> change;
    bool throttled, on_release;
  };
  const std::vector<Case> cases = {
      {[](auto& s) {}, false, false},
      {[](auto& s) { s.set_completion(v1::ON_DELIVERY); }, false, false},
      {[](auto& s) { s.set_completion(v1::ON_RELEASE); }, true, true},
      {[](auto& s) { s.mutable_window()->mutable_duration()->set_seconds(1); }, true, false},
      {[](auto& s) { s.set_policy("tenants/default/policies/p"); }, true, true},
      {[](auto& s) {
         s.set_policy("tenants/default/policies/p");
         s.set_completion(v1::ON_DELIVERY);
       },
       true, false}};
  for (size_t i = 0; i < cases.size(); ++i) {
    MasterWorld fixture;
    PutPolicy(fixture, "p");
    v1::CreateScheduleRequest request = ValidSchedule("s");
    cases[i].change(*request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
    storage::v1::DefinitionRecord definition;
    ASSERT_TRUE(
        definition.ParseFromString(fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
    EXPECT_EQ(definition.has_throttle(), cases[i].throttled) << i;
    EXPECT_EQ(definition.throttle().on_release(), cases[i].on_release) << i;
    EXPECT_EQ(made->completion(), cases[i].on_release ? v1::ON_RELEASE : v1::ON_DELIVERY) << i;
  }
}

TEST(ScheduleThrottle, APolicyThatIsNotThereIsRefusedAndNothingIsWritten) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::CreateScheduleRequest request = ValidSchedule("s");
  request.mutable_schedule()->set_policy("tenants/default/policies/none");
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    const auto answer = fixture.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReason(answer.status()), "POLICY_NOT_FOUND");
    EXPECT_EQ(ErrorMetadataValue(answer.status(), "field"), "schedule.policy");
    EXPECT_EQ(ErrorMetadataValue(answer.status(), "resource"), "tenants/default/policies/none");
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleThrottle, PolicyDeletedDuringItsFirstScheduleIsNeverLeftInUse) {
  int made_first = 0;
  int refused = 0;
  for (int steps = 1; steps < 60; ++steps) {
    MasterWorld fixture;
    v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
    request.mutable_schedule()->set_policy(PutPolicy(fixture, "p"));
    std::optional<absl::StatusOr<v1::Schedule>> answer;
    fixture.master->schedules().CreateSchedule(
        request, [&](absl::StatusOr<v1::Schedule> schedule) { answer = std::move(schedule); });
    for (int i = 0; i < steps && fixture.runtime.world().Step(); ++i) {
    }
    // As a policy is deleted: under the condition that it has no users.
    const std::string users = PolicyUserPrefix(PolicyUid("default", "p"));
    kv::Group group;
    group.conditions.push_back({.cf = ColumnFamily::kPolicies,
                                .key = users,
                                .kind = kv::Condition::Kind::kRangeCount,
                                .value = PrefixEnd(users),
                                .number = 0});
    group.mutations.push_back({.cf = ColumnFamily::kPolicies,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = PolicyKey("default", "p")});
    std::optional<bool> deleted;
    fixture.TryCommit({group}, [&](bool all) { deleted = all; });
    ASSERT_TRUE(fixture.runtime.RunUntil([&] { return answer.has_value() && deleted.has_value(); },
                                         absl::Minutes(1)));
    EXPECT_NE(answer->ok(), *deleted) << steps << answer->status();
    made_first += answer->ok();
    refused += ErrorReason(answer->status()) == "POLICY_NOT_FOUND";
  }
  EXPECT_GT(made_first, 0);
  EXPECT_GT(refused, 0);
}

TEST(ScheduleThrottle, AnUpdateOfThePolicyMovesTheUseAndDeleteEndsIt) {
  ScheduleWorld bench(2, 2);
  bench.MakeThrottled("0 0 1 1 *", 5, "p");
  const std::string other = PutPolicy(bench.fixture, "q");
  const Strings both = {"p", "q"};
  const Uid uid = Uid::FromBytes(bench.fixture.Rows(ColumnFamily::kStates).begin()->first);
  const auto update = [&](const std::string& policy) {
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name(kName);
    request.mutable_schedule()->set_policy(policy);
    request.mutable_update_mask()->add_paths("policy");
    return bench.fixture.Call(&ScheduleApi::UpdateSchedule, request);
  };
  ASSERT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{"p"});
  EXPECT_EQ(ErrorReason(update("tenants/default/policies/none").status()), "POLICY_NOT_FOUND");
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{"p"});
  auto updated = update(other);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->policy(), other);
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{"q"});
  // Another change leaves it as it is.
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("1 0 1 1 *")).ok());
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{"q"});
  // Without a policy the completion is by default that of the delivery again.
  updated = update("");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->policy(), "");
  EXPECT_EQ(updated->completion(), v1::ON_DELIVERY);
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{});
  updated = update(other);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->completion(), v1::ON_RELEASE);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(UsedPolicies(bench.fixture, uid, both), Strings{});
}

TEST(ScheduleThrottle, PolicyIsAlsoNamedByItsId) {
  ScheduleWorld bench(2, 2);
  const std::string policy = PutPolicy(bench.fixture, "p");
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.mutable_schedule()->set_policy("p");
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy(), policy);
}

TEST(ScheduleThrottle, AGivenCompletionStaysWhenThePolicyChanges) {
  ScheduleWorld bench(2, 2);
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "p"));
  request.mutable_schedule()->set_completion(v1::ON_DELIVERY);
  request.mutable_schedule()->mutable_on_complete()->mutable_grpc()->set_uri("dns:///h:1");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::CreateSchedule, request).ok());
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(kName);
  update.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "q"));
  update.mutable_schedule()->mutable_window()->mutable_duration()->set_seconds(5);
  for (const char* path : {"policy", "window", "on_complete"})
    update.mutable_update_mask()->add_paths(path);
  const auto updated = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->completion(), v1::ON_DELIVERY);
  EXPECT_EQ(updated->window().duration().seconds(), 5);
  EXPECT_FALSE(updated->has_on_complete());
}

TEST(ScheduleThrottle, PolicyOfARateAloneNeedsNothingFromTheConsumer) {
  ScheduleWorld bench(2, 4);
  v1::CreateScheduleRequest request = ValidSchedule("s", "* * * * * *");
  request.mutable_schedule()->mutable_retry_policy()->set_keep(true);
  request.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "rate", /*max_concurrent=*/0));
  auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->completion(), v1::ON_DELIVERY);
  EXPECT_TRUE(made->warnings().empty()) << made->warnings(0);
  const auto waiting = Waiting(bench.fixture);
  ASSERT_FALSE(waiting.empty());
  for (const auto& [key, row] : waiting) EXPECT_FALSE(row.throttle().on_release());
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kChildren)) {
    storage::v1::ChildRecord child;
    ASSERT_TRUE(child.ParseFromString(value));
    EXPECT_FALSE(child.throttle().on_release());
  }
  request.set_schedule_id("said");
  request.mutable_schedule()->set_completion(v1::ON_RELEASE);
  made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->completion(), v1::ON_RELEASE);
  // A completion that was set stays when something else changes.
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/said");
  update.mutable_schedule()->set_display_name("D");
  made = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->completion(), v1::ON_RELEASE);
}

TEST(ScheduleThrottle, DefaultThatNeedsTheConsumerIsAnsweredWithAWarning) {
  ScheduleWorld bench(2, 2);
  const auto warned = [](const absl::StatusOr<v1::Schedule>& schedule) {
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    const v1::Schedule shown = schedule.value_or(v1::Schedule());
    for (const std::string& warning : shown.warnings())
      if (absl::StartsWith(warning, "the consumer must give tokens back")) return warning;
    return std::string();
  };
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.mutable_schedule()->set_policy(PutPolicy(bench.fixture, "p"));
  request.set_validate_only(true);
  EXPECT_NE(warned(bench.fixture.Call(&ScheduleApi::CreateSchedule, request)), "");
  request.set_validate_only(false);
  const std::string warning = warned(bench.fixture.Call(&ScheduleApi::CreateSchedule, request));
  EXPECT_TRUE(absl::StrContains(warning, "after the hold time of 30m")) << warning;
  EXPECT_TRUE(absl::StrContains(warning, "set completion to ON_DELIVERY")) << warning;
  for (const v1::Completion completion : {v1::ON_RELEASE, v1::ON_DELIVERY}) {
    request.set_schedule_id(v1::Completion_Name(completion) == "ON_RELEASE" ? "r" : "d");
    request.mutable_schedule()->set_completion(completion);
    EXPECT_EQ(warned(bench.fixture.Call(&ScheduleApi::CreateSchedule, request)), "");
  }
  const auto update = [&](const std::function<void(v1::Schedule&)>& change,
                          const std::vector<std::string>& paths) {
    v1::UpdateScheduleRequest update;
    update.mutable_schedule()->set_name(kName);
    change(*update.mutable_schedule());
    for (const std::string& path : paths) update.mutable_update_mask()->add_paths(path);
    return warned(bench.fixture.Call(&ScheduleApi::UpdateSchedule, update));
  };
  EXPECT_EQ(update([](auto& s) { s.set_display_name("D"); }, {}), "");
  const std::string other = PutPolicy(bench.fixture, "q");
  EXPECT_NE(update([&](auto& s) { s.set_policy(other); }, {"policy"}), "");
  EXPECT_EQ(update([](auto& s) {}, {"policy"}), "");
  EXPECT_NE(update([&](auto& s) { s.set_policy(other); }, {"policy"}), "");
  EXPECT_EQ(update([](auto& s) { s.set_completion(v1::ON_DELIVERY); }, {}), "");
  EXPECT_NE(update([](auto& s) {}, {"completion"}), "");
}

TEST(ScheduleThrottle, TriggerOfAThrottledScheduleMakesOneWaitingRow) {
  ScheduleWorld bench(2, 2);
  bench.MakeThrottled("0 0 1 1 *", 1, "p");
  for (const int64_t n : {int64_t{1}, int64_t{100'000'000}}) {
    v1::TriggerScheduleRequest trigger = Named<v1::TriggerScheduleRequest>();
    trigger.set_event_count(n);
    const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto [key, record] = Waiting(bench.fixture).back();
    EXPECT_EQ(run->name(), absl::StrCat(kName, "/runs/", key.occurrence));
    EXPECT_EQ(record.count(), static_cast<uint64_t>(n));
    EXPECT_TRUE(record.triggered());
    bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1));
  }
  EXPECT_EQ(Waiting(bench.fixture).size(), 2u);
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 2u);
  EXPECT_TRUE(bench.fixture.Events().empty());
}

}  // namespace schedule_throttle_test
}  // namespace escapement::master
