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
#include "services/master/policies/policy_service.h"
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
  schedule.set_on_complete_when(v1::Schedule::ON_FAILURE);
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy(), "tenants/default/policies/p");
  EXPECT_EQ(made->completion(), v1::ON_RELEASE);
  EXPECT_EQ(made->window().duration().seconds(), 60);
  EXPECT_EQ(made->window().pacing(), v1::Window::EVEN);
  EXPECT_EQ(made->window().on_close(), v1::Window::FINISH_LATE);
  EXPECT_EQ(made->on_complete().http().uri(), "http://h/done");
  EXPECT_EQ(made->on_complete().http().method(), "POST");
  EXPECT_EQ(made->on_complete_when(), v1::Schedule::ON_FAILURE);
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
  EXPECT_TRUE(definition.on_complete_if_failed());
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
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->on_complete_when(), v1::Schedule::ALWAYS);
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
  EXPECT_EQ(updated->on_complete_when(), v1::Schedule::ON_COMPLETE_WHEN_UNSPECIFIED);
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

// As the API makes it: it waits in the policy shard of its tenant.
std::string MakePolicy(MasterWorld& fixture, const std::string& id,
                       const std::function<void(v1::ThrottlePolicy&)>& change) {
  v1::CreatePolicyRequest request;
  request.set_parent("tenants/default");
  request.set_policy_id(id);
  change(*request.mutable_policy());
  const auto policy = fixture.Call(&PolicyApi::CreatePolicy, request);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return absl::StrCat("tenants/default/policies/", id);
}

void AddLimit(v1::Schedule& schedule, const std::string& policy, const std::string& key = "",
              int64_t weight = 0) {
  v1::Limit& limit = *schedule.add_limits();
  limit.set_policy(policy);
  limit.set_policy_key(key);
  limit.set_weight(weight);
}

class ScheduleLimitsTest : public ::testing::Test {
 protected:
  ScheduleLimitsTest() {
    MakePolicy(bench_.fixture, "rate", [](auto& p) { p.set_max_per_second(5); });
    MakePolicy(bench_.fixture, "few", [](auto& p) { p.set_max_concurrent(20); });
    MakePolicy(bench_.fixture, "customers", [](auto& p) {
      p.set_max_concurrent(200);
      p.mutable_per_key()->set_max_concurrent(5);
    });
  }
  v1::CreateScheduleRequest Request() const { return ValidSchedule("s", "* * * * * *"); }
  absl::StatusOr<v1::Schedule> Create(const v1::CreateScheduleRequest& request) {
    return bench_.fixture.Call(&ScheduleApi::CreateSchedule, request);
  }
  absl::StatusOr<v1::Schedule> Update(const std::function<void(v1::Schedule&)>& change,
                                      const Strings& paths) {
    v1::UpdateScheduleRequest update;
    update.mutable_schedule()->set_name(kName);
    change(*update.mutable_schedule());
    for (const std::string& path : paths) update.mutable_update_mask()->add_paths(path);
    return bench_.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  }
  Strings Used(const std::string& uid) {
    return UsedPolicies(bench_.fixture, Uid::FromHex(uid), {"customers", "few", "rate"});
  }
  // policy/key/weight of each of the schedule's limits.
  static Strings Shown(const absl::StatusOr<v1::Schedule>& schedule) {
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    Strings shown;
    if (!schedule.ok()) return shown;
    if (!schedule->policy().empty())
      shown.push_back(absl::StrCat("one ", schedule->policy(), "/", schedule->policy_key()));
    for (const v1::Limit& limit : schedule->limits())
      shown.push_back(absl::StrCat(limit.policy(), "/", limit.policy_key(), "/", limit.weight()));
    return shown;
  }
  storage::v1::DefinitionRecord LastDefinition() const {
    storage::v1::DefinitionRecord last;
    for (const auto& [key, value] : bench_.fixture.Rows(ColumnFamily::kDefinitions)) {
      storage::v1::DefinitionRecord definition;
      EXPECT_TRUE(definition.ParseFromString(value));
      if (definition.version() > last.version()) last = definition;
    }
    return last;
  }

  ScheduleWorld bench_{2, 4};
};

constexpr char kRate[] = "tenants/default/policies/rate";
constexpr char kFew[] = "tenants/default/policies/few";
constexpr char kCustomers[] = "tenants/default/policies/customers";

TEST_F(ScheduleLimitsTest, RowsHaveAllLimitsAndPoliciesHaveTheUse) {
  v1::CreateScheduleRequest request = Request();
  AddLimit(*request.mutable_schedule(), "rate");
  AddLimit(*request.mutable_schedule(), kCustomers, "acme", 3);
  AddLimit(*request.mutable_schedule(), "few", "", 20);
  const auto made = Create(request);
  EXPECT_EQ(Shown(made), (Strings{absl::StrCat(kRate, "//1"), absl::StrCat(kCustomers, "/acme/3"),
                                  absl::StrCat(kFew, "//20")}));
  EXPECT_EQ(made->completion(), v1::ON_RELEASE) << "the second policy needs tokens back";
  EXPECT_EQ(Used(made->uid()), (Strings{"customers", "few", "rate"}));
  const auto waiting = Waiting(bench_.fixture);
  ASSERT_FALSE(waiting.empty());
  for (const auto& [key, row] : waiting) {
    EXPECT_EQ(key.policy, PolicyUid("default", "rate"));
    const storage::v1::ThrottleRecord& throttle = row.throttle();
    EXPECT_TRUE(throttle.by_tenant());
    EXPECT_EQ(throttle.policy_id(), "rate");
    EXPECT_EQ(throttle.weight(), 0u);
    ASSERT_EQ(throttle.more_size(), 2);
    EXPECT_EQ(throttle.more(0).policy_id(), "customers");
    EXPECT_EQ(throttle.more(0).policy_key(), "acme");
    EXPECT_EQ(throttle.more(0).weight(), 3u);
    EXPECT_EQ(throttle.more(1).weight(), 20u);
  }
  for (const std::string policy : {kRate, kFew, kCustomers}) {
    v1::DeletePolicyRequest request;
    request.set_name(policy);
    EXPECT_EQ(ErrorReason(bench_.fixture.Call(&PolicyApi::DeletePolicy, request).status()),
              "POLICY_HAS_SCHEDULES")
        << policy;
  }
  ASSERT_TRUE(
      bench_.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(Used(made->uid()), Strings{});
}

TEST_F(ScheduleLimitsTest, OneLimitOfWeightOneIsShownAsThePolicy) {
  v1::CreateScheduleRequest request = Request();
  AddLimit(*request.mutable_schedule(), "customers", "acme", 1);
  EXPECT_EQ(Shown(Create(request)), Strings{absl::StrCat("one ", kCustomers, "/acme")});
  const auto heavy = Update([](auto& s) { AddLimit(s, "customers", "acme", 2); }, {"limits"});
  EXPECT_EQ(Shown(heavy), Strings{absl::StrCat(kCustomers, "/acme/2")});
  EXPECT_EQ(LastDefinition().throttle().weight(), 2u);
  EXPECT_EQ(LastDefinition().throttle().more_size(), 0);
}

TEST_F(ScheduleLimitsTest, UpdateReplacesPolicyByLimitsAndTheReverse) {
  v1::CreateScheduleRequest request = Request();
  request.mutable_schedule()->set_policy("customers");
  request.mutable_schedule()->set_policy_key("acme");
  const auto made = Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  const Strings both = {absl::StrCat(kFew, "//2"), absl::StrCat(kRate, "//1")};
  const auto limit_both = [](auto& s) {
    AddLimit(s, "few", "", 2);
    AddLimit(s, "rate");
  };
  for (const Strings& mask : {Strings{}, Strings{"limits"}, Strings{"limits", "policy"}}) {
    EXPECT_EQ(Shown(Update(limit_both, mask)), both);
    EXPECT_EQ(Used(made->uid()), (Strings{"few", "rate"}));
    // Another change leaves them as they are.
    EXPECT_EQ(Shown(Update([](auto& s) { s.set_display_name("D"); }, {})), both);
    EXPECT_EQ(Used(made->uid()), (Strings{"few", "rate"}));
    const auto one = Update(
        [](auto& s) {
          s.set_policy("customers");
          s.set_policy_key("acme");
        },
        {});
    EXPECT_EQ(Shown(one), Strings{absl::StrCat("one ", kCustomers, "/acme")});
    EXPECT_EQ(Used(made->uid()), Strings{"customers"});
  }
  EXPECT_EQ(Shown(Update(limit_both, {"limits"})), both);
  const auto none = Update([](auto& s) {}, {"limits"});
  EXPECT_EQ(Shown(none), Strings{});
  EXPECT_EQ(none->completion(), v1::ON_DELIVERY);
  EXPECT_EQ(Used(made->uid()), Strings{});
}

TEST_F(ScheduleLimitsTest, WrongLimitIsRefusedByItsField) {
  struct Case {
    std::function<void(v1::Schedule&)> change;
    std::string field, text;
  };
  const std::vector<Case> cases = {
      {[](auto& s) {
         s.set_policy("few");
         AddLimit(s, "rate");
       },
       "schedule.limits", "set either policy or limits"},
      {[](auto& s) {
         s.set_policy_key("k");
         AddLimit(s, "rate");
       },
       "schedule.limits", "set either policy or limits"},
      {[](auto& s) {
         for (int i = 0; i < 5; ++i) AddLimit(s, absl::StrCat("p", i));
       },
       "schedule.limits", "at most 4"},
      {[](auto& s) { AddLimit(s, ""); }, "schedule.limits[0].policy", "is required"},
      {[](auto& s) {
         AddLimit(s, "few");
         AddLimit(s, "tenants/other/policies/p");
       },
       "schedule.limits[1].policy", "must be a policy of tenants/default"},
      {[](auto& s) {
         AddLimit(s, "few");
         AddLimit(s, kFew, "k");
       },
       "schedule.limits[1].policy", "is named twice"},
      {[](auto& s) { AddLimit(s, "few", "line\n"); }, "schedule.limits[0].policy_key", "printable"},
      {[](auto& s) { AddLimit(s, "few", "", -1); }, "schedule.limits[0].weight", "from 1 to"},
      {[](auto& s) { AddLimit(s, "rate", "", 1'000'001); }, "schedule.limits[0].weight",
       "from 1 to 1000000"},
      {[](auto& s) {
         AddLimit(s, "rate", "", 1'000'000);
         AddLimit(s, "few", "", 21);
       },
       "schedule.limits[1].weight", "more than the 20 tokens of tenants/default/policies/few"},
      {[](auto& s) { AddLimit(s, "customers", "", 6); }, "schedule.limits[0].weight",
       "more than the 5 tokens"}};
  const std::string before = bench_.fixture.Dump();
  for (const Case& each : cases) {
    v1::CreateScheduleRequest request = Request();
    each.change(*request.mutable_schedule());
    const absl::Status refused = Create(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << each.field;
    const auto violations = FieldViolationsOf(refused);
    ASSERT_EQ(violations.size(), 1u) << refused;
    EXPECT_EQ(violations[0].first, each.field);
    EXPECT_TRUE(absl::StrContains(violations[0].second, each.text)) << violations[0].second;
  }
  v1::CreateScheduleRequest request = Request();
  AddLimit(*request.mutable_schedule(), "few");
  AddLimit(*request.mutable_schedule(), "none");
  const absl::Status missing = Create(request).status();
  EXPECT_EQ(ErrorReason(missing), "POLICY_NOT_FOUND");
  EXPECT_EQ(ErrorMetadataValue(missing, "field"), "schedule.limits[1].policy");
  EXPECT_EQ(ErrorMetadataValue(missing, "resource"), "tenants/default/policies/none");
  EXPECT_EQ(bench_.fixture.Dump(), before);
}

TEST_F(ScheduleLimitsTest, PoliciesOfOtherPolicyShardsAreRefusedTogether) {
  // As a former version made it: in the policy shard of its own uid.
  MasterWorld& fixture = bench_.fixture;
  std::string apart, beside;
  storage::v1::PolicyRecord few;
  ASSERT_TRUE(
      few.ParseFromString(*fixture.Get(ColumnFamily::kPolicies, PolicyKey("default", "few"))));
  const uint16_t of_tenant = WaitingPlaceOf(few, fixture.layout.policy_shards).policy_shard;
  for (int i = 0; apart.empty() || beside.empty(); ++i) {
    const std::string id = absl::StrCat("former-", i);
    const bool same =
        PolicyShardOf(PolicyUid("default", id), fixture.layout.policy_shards) == of_tenant;
    (same ? beside : apart) = id;
  }
  PutPolicy(fixture, apart, /*max_concurrent=*/10);
  PutPolicy(fixture, beside, /*max_concurrent=*/10);
  v1::CreateScheduleRequest request = Request();
  AddLimit(*request.mutable_schedule(), "few");
  AddLimit(*request.mutable_schedule(), apart);
  const absl::Status refused = Create(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused), "POLICIES_APART");
  EXPECT_EQ(ErrorMetadataValue(refused, "field"), "schedule.limits");
  EXPECT_EQ(ErrorMetadataValue(refused, "resource"), "tenants/default/policies/" + apart);
  request.mutable_schedule()->clear_limits();
  AddLimit(*request.mutable_schedule(), beside);
  AddLimit(*request.mutable_schedule(), "few");
  const auto made = Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(LastDefinition().throttle().by_tenant()) << "as its first policy";
  // Alone each one can be used.
  EXPECT_EQ(Shown(Update([&](auto& s) { s.set_policy(apart); }, {"policy"})),
            Strings{absl::StrCat("one tenants/default/policies/", apart, "/")});
}

TEST_F(ScheduleLimitsTest, EachUpdateTakesThePlaceOfThePolicysRecord) {
  v1::CreateScheduleRequest request = Request();
  request.mutable_schedule()->set_policy(PutPolicy(bench_.fixture, "p"));
  ASSERT_TRUE(Create(request).ok());
  EXPECT_FALSE(LastDefinition().throttle().by_tenant());
  storage::v1::PolicyRecord policy;
  const std::string key = PolicyKey("default", "p");
  ASSERT_TRUE(policy.ParseFromString(*bench_.fixture.Get(ColumnFamily::kPolicies, key)));
  policy.set_by_tenant(true);
  bench_.fixture.Put(ColumnFamily::kPolicies, key, policy.SerializeAsString());
  ASSERT_TRUE(Update([](auto& s) { s.set_display_name("D"); }, {}).ok());
  EXPECT_TRUE(LastDefinition().throttle().by_tenant());
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
