// Tests of the statistics of a token manager.

#include <map>
#include <string>

#include "common/base/proto_time.h"
#include "common/statistics/testing/stored_sums.h"
#include "common/storage/statistics_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_statistics_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

class TokenManagerStatisticsTest : public ::testing::Test {
 protected:
  TokenManagerStatisticsTest() {
    policy_ = world_.PutPolicy("p", Limits(2));
    world_.Start("a");
    world_.Advance(kSettle);
    uid_ = world_.AddSchedule("s", schedule_);
  }
  static storage::v1::PolicyRecord Limits(uint64_t max_concurrent) {
    storage::v1::PolicyRecord limits = TokenWorld::Limits(max_concurrent);
    limits.set_hold_timeout_micros(absl::ToInt64Microseconds(absl::Hours(2)));
    return limits;
  }
  void AddRow(uint64_t count) {
    world_.AddRow(uid_, schedule_, {.due = world_.now(), .count = count});
    world_.Advance(kSettle);
  }
  std::map<int64_t, StatisticsSums> Minutes(const std::string& subject) {
    return StoredSums(world_.Rows(ColumnFamily::kPolicies), subject);
  }
  StatisticsSums Sum(const std::string& subject) {
    world_.Advance(kStatisticsEvery + absl::Seconds(1));
    return StoredSum(world_.Rows(ColumnFamily::kPolicies), subject);
  }

  TokenWorld world_;
  const TokenWorld::Schedule schedule_{.policy_id = "p"};
  Uid policy_;
  Uid uid_;
  const std::string tenant_ = TenantStatistics("default");
  const std::string of_policy_ = PolicyStatistics("default", "p");
};

TEST_F(TokenManagerStatisticsTest, EachMinuteHasTheMostOfItsSamples) {
  AddRow(5);
  world_.Handle();
  world_.Advance(absl::Minutes(3));
  const auto minutes = Minutes(of_policy_);
  ASSERT_GE(minutes.size(), 3u);
  for (const auto& [minute, sums] : minutes) {
    EXPECT_EQ(sums.held, 2u);
    EXPECT_EQ(sums.max_concurrent, 2u);
    EXPECT_EQ(sums.waiting, 3u);
  }
}

TEST_F(TokenManagerStatisticsTest, PolicyWithoutLimitShowsNone) {
  world_.PutPolicy("p", Limits(0));
  AddRow(5);
  world_.Handle();
  const StatisticsSums sums = Sum(of_policy_);
  EXPECT_EQ(sums.held, 5u);
  EXPECT_EQ(sums.max_concurrent, 0u);
}

TEST_F(TokenManagerStatisticsTest, IdlePoliciesAndThoseOfSchedulesHaveNoRows) {
  world_.Advance(absl::Minutes(2));
  EXPECT_TRUE(Minutes(of_policy_).empty());
  const TokenWorld::Schedule alone;
  const Uid other = world_.AddSchedule("alone", alone);
  world_.AddRow(other, alone, {.due = world_.now()});
  world_.Advance(absl::Minutes(2));
  EXPECT_TRUE(Minutes(PolicyStatistics("default", "")).empty());
}

TEST_F(TokenManagerStatisticsTest, EndsOfConsumersCountForTheTenant) {
  AddRow(2);
  const auto out = world_.Handle();
  ASSERT_EQ(out.size(), 2u);
  world_.Advance(kSettle);
  EXPECT_EQ(Sum(tenant_).succeeded, 0u);
  EXPECT_TRUE(world_.Complete("a", out[0]));
  EXPECT_TRUE(world_.Complete("a", out[1], GrantReportRecord::COMPLETION_FAILED_FINALLY));
  const StatisticsSums sums = Sum(tenant_);
  EXPECT_EQ(sums.succeeded, 1u);
  EXPECT_EQ(sums.failed, 1u);
  EXPECT_EQ(sums.others, 0u);
  EXPECT_EQ(sums.due, 0u) << "the handler counts what it has sent";
}

TEST_F(TokenManagerStatisticsTest, EndsThatHandlersReportCountOnce) {
  const TokenWorld::Schedule sent{.policy_id = "p", .on_release = false};
  world_.AddRow(world_.AddSchedule("sent", sent), sent, {.due = world_.now(), .count = 2});
  world_.Advance(kSettle);
  world_.Handle([](const SentEvent& event) {
    return TokenWorld::EntryOf(event, GrantReportRecord::SUCCEEDED);
  });
  const StatisticsSums sums = Sum(tenant_);
  EXPECT_EQ(sums.succeeded, 2u);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 2u);
}

TEST_F(TokenManagerStatisticsTest, RowsOfDeletedSchedulesAreDueAndEnd) {
  AddRow(5);
  ASSERT_EQ(world_.Handle().size(), 2u);
  world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_DELETED, 2);
  world_.Advance(kSettle);
  ASSERT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 3u);
  const StatisticsSums sums = Sum(tenant_);
  EXPECT_EQ(sums.others, 3u);
  EXPECT_EQ(sums.due, 3u);
}

}  // namespace token_manager_statistics_test
}  // namespace escapement::token_manager
