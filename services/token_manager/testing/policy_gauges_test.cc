// The token manager's gauges of busy policies.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/token_manager/service/policy_shard.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace policy_gauges_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kShown = absl::Seconds(5);

class PolicyGaugesTest : public ::testing::Test {
 protected:
  // A schedule with `events` due events and a policy that lets `limit` out.
  void AddBusyPolicy(const std::string& id, uint64_t limit, uint64_t events, bool hold = false) {
    const TokenWorld::Schedule schedule{.policy_id = id};
    storage::v1::PolicyRecord record = TokenWorld::Limits(limit);
    record.set_hold_on_expiry(hold);
    world_.PutPolicy(id, record);
    const Uid uid = world_.AddSchedule(absl::StrCat("s-", id), schedule);
    world_.AddRow(uid, schedule, {.due = world_.now(), .count = events});
  }
  double Gauge(const std::string& name) {
    return registry_.GetGauge(absl::StrCat("escapement_token_manager_", name), "")->Value();
  }

  double PolicyGauge(const std::string& name, const std::string& policy) {
    return registry_
        .GetGauge(absl::StrCat("escapement_token_manager_policy_", name), "",
                  {{"policy", absl::StrCat("tenants/default/policies/", policy)}})
        ->Value();
  }

  Metrics registry_;
  TokenWorld world_{[this] {
    TokenManagerOptions options;
    options.metrics = &registry_;
    return options;
  }()};
};

TEST_F(PolicyGaugesTest, ABusyPolicyShowsItsLimitItsHoldersAndItsWaiters) {
  AddBusyPolicy("p", 2, 5);
  world_.Start("a");
  world_.Advance(kShown);
  const std::string name = "{policy=\"tenants/default/policies/p\"} ";
  EXPECT_THAT(
      registry_.Serialize(),
      AllOf(
          HasSubstr(absl::StrCat("escapement_token_manager_policy_tokens_held", name, "2\n")),
          HasSubstr(absl::StrCat("escapement_token_manager_policy_limit", name, "2\n")),
          HasSubstr(absl::StrCat("escapement_token_manager_policy_events_waiting", name, "3\n"))));
  EXPECT_GT(Gauge("oldest_waiting_seconds"), 1);

  // The consumer gives all tokens back; then the policy is not busy and has no gauge.
  for (int i = 0; i < 10; ++i) {
    for (const SentEvent& event : world_.Handle()) {
      world_.Advance(absl::Seconds(1));
      world_.Complete("a", event);
    }
    world_.Advance(kShown);
  }
  EXPECT_THAT(registry_.Serialize(), Not(HasSubstr("policies/p")));
  EXPECT_EQ(Gauge("oldest_waiting_seconds"), 0);
}

TEST_F(PolicyGaugesTest, TheNewestTokenGrowsOldUntilOneComesBack) {
  AddBusyPolicy("p", 2, 5, /*hold=*/true);
  world_.Start("a");
  world_.Advance(kSettle);
  const std::vector<SentEvent> sent = world_.Handle();
  ASSERT_EQ(sent.size(), 2u);
  world_.Advance(absl::Seconds(100));
  EXPECT_GT(PolicyGauge("newest_token_seconds", "p"), 95);
  world_.Complete("a", sent.front());
  world_.Advance(kShown);
  EXPECT_LE(PolicyGauge("newest_token_seconds", "p"), 5);
}

TEST_F(PolicyGaugesTest, APauseAndTheRateHoldAPolicyBack) {
  AddBusyPolicy("full", 1, 5);
  const auto add = [&](const std::string& id, const storage::v1::PolicyRecord& record) {
    const TokenWorld::Schedule schedule{.policy_id = id};
    world_.PutPolicy(id, record);
    const Uid uid = world_.AddSchedule(absl::StrCat("s-", id), schedule);
    world_.AddRow(uid, schedule, {.due = world_.now(), .count = 5});
  };
  storage::v1::PolicyRecord paused = TokenWorld::Limits(1);
  paused.set_paused(true);
  add("paused", paused);
  storage::v1::PolicyRecord slow = TokenWorld::Limits(4);
  slow.set_max_per_second(0.001);
  slow.set_burst(1);
  add("slow", slow);
  world_.Start("a");
  world_.Advance(kShown);
  EXPECT_EQ(PolicyGauge("held_back", "full"), 0);
  EXPECT_EQ(PolicyGauge("held_back", "paused"), 1);
  EXPECT_EQ(PolicyGauge("held_back", "slow"), 1);
}

TEST_F(PolicyGaugesTest, HoldersBeyondTheirHoldTimeAreOverdue) {
  AddBusyPolicy("p", 3, 3, /*hold=*/true);
  world_.Start("a");
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Handle().size(), 3u);
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(Gauge("holders_overdue"), 0);
  world_.Advance(absl::Seconds(300));
  EXPECT_EQ(Gauge("holders_overdue"), 3);
}

TEST_F(PolicyGaugesTest, OnlyThePoliciesWithMostWaitersHaveGauges) {
  for (size_t i = 0; i < kPolicyGaugesMax + 10; ++i)
    AddBusyPolicy(absl::StrCat("p", i), /*limit=*/1, /*events=*/i < 10 ? 2 : 5);
  world_.Start("a");
  world_.Advance(kShown);
  const std::string text = registry_.Serialize();
  for (size_t i = 0; i < kPolicyGaugesMax + 10; ++i) {
    const std::string label = absl::StrCat("{policy=\"tenants/default/policies/p", i, "\"}");
    EXPECT_EQ(text.find(label) != std::string::npos, i >= 10) << label;
  }
}

}  // namespace policy_gauges_test
}  // namespace escapement::token_manager
