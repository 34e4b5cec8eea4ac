// Tests of the statistics of a handler.

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/statistics/testing/stored_sums.h"
#include "common/storage/name_tables.h"
#include "common/storage/statistics_table.h"
#include "gtest/gtest.h"
#include "services/handler/testing/granted_world.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_statistics_test {

using kv::ColumnFamily;

class HandlerStatisticsTest : public ::testing::Test {
 protected:
  HandlerStatisticsTest() { world_.Advance(absl::Seconds(1)); }
  void Start() {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }
  static int64_t MinuteOf(absl::Time time) { return ToMicros(time) / 60'000'000; }
  std::map<int64_t, StatisticsSums> Minutes(const std::string& subject) {
    world_.Advance(kStatisticsEvery + absl::Seconds(1));
    return StoredSums(world_.Rows(ColumnFamily::kPolicies), subject);
  }
  StatisticsSums Sum(const std::string& subject) {
    world_.Advance(kStatisticsEvery + absl::Seconds(1));
    return StoredSum(world_.Rows(ColumnFamily::kPolicies), subject);
  }

  HandlerWorld world_;
  const std::string tenant_ = TenantStatistics("default");
  const std::string target_ = TargetStatistics("default", TargetIdOf("grpc:consumer"));
};

TEST_F(HandlerStatisticsTest, AcceptedEventsCountForTenantAndTarget) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(3), .count = 50, .run_count = 50});
  world_.AddOneOff("e", world_.now() + absl::Seconds(4), "one", "other");
  world_.Advance(absl::Seconds(5));
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.due, 51u);
  EXPECT_EQ(all.succeeded, 51u);
  EXPECT_EQ(all.failed, 0u);
  EXPECT_EQ(all.others, 0u);
  EXPECT_EQ(all.attempts, 51u);
  EXPECT_EQ(all.errors, 0u);
  EXPECT_EQ(all.late, 0u);
  const StatisticsSums target = Sum(target_);
  EXPECT_EQ(target.attempts, 50u);
  EXPECT_EQ(target.errors, 0u);
  EXPECT_EQ(target.due, 0u) << "only tenants have due events";
  EXPECT_EQ(Sum(TargetStatistics("default", TargetIdOf("grpc:other"))).attempts, 1u);
}

// The handler forgets a target once nothing is out there, if it keeps many.
TEST_F(HandlerStatisticsTest, TargetsThatAreForgottenAtOnceCount) {
  constexpr int kTargets = 4200;
  Start();
  for (int i = 0; i < kTargets; ++i)
    world_.AddOneOff(absl::StrCat("e", i), world_.now() + absl::Seconds(3), "one",
                     absl::StrCat("target", i));
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(transport().sent.size(), static_cast<size_t>(kTargets));
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.due, static_cast<uint64_t>(kTargets));
  EXPECT_EQ(all.attempts, static_cast<uint64_t>(kTargets));
}

TEST_F(HandlerStatisticsTest, LateEventsCountInTheMinuteInWhichTheyLeave) {
  const Uid uid = world_.AddSchedule("s");
  const absl::Time due = world_.now() - absl::Minutes(3);
  world_.AddRow(uid, {.due = due, .count = 2, .run_count = 2});
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(2));
  ASSERT_EQ(transport().sent.size(), 2u);
  const absl::Time sent = transport().sent[0].at;
  auto minutes = Minutes(tenant_);
  EXPECT_EQ(minutes[MinuteOf(due)].due, 2u);
  EXPECT_EQ(minutes[MinuteOf(due)].late, 0u);
  EXPECT_EQ(minutes[MinuteOf(sent)].due, 0u);
  EXPECT_EQ(minutes[MinuteOf(sent)].late, 2u);
  EXPECT_NEAR(static_cast<double>(minutes[MinuteOf(sent)].lateness_max_micros),
              static_cast<double>(ToMicros(sent) - ToMicros(due)), 1e4);
  EXPECT_EQ(Minutes(target_)[MinuteOf(sent)].late, 2u);
}

TEST_F(HandlerStatisticsTest, RetriesAreAttemptsAndTheEventIsDueOnce) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  int attempts = 0;
  transport().decide = [&](const DeliveryAttempt&) {
    return DeliveryResult{
        .status = ++attempts < 3 ? DeliveryStatus::kFailed : DeliveryStatus::kAccepted,
        .message = ""};
  };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1)});
  world_.Advance(absl::Minutes(2));
  ASSERT_EQ(attempts, 3);
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.due, 1u);
  EXPECT_EQ(all.attempts, 3u);
  EXPECT_EQ(all.errors, 2u);
  EXPECT_EQ(all.late, 0u) << "only first attempts are late";
  EXPECT_EQ(all.succeeded, 1u);
}

TEST_F(HandlerStatisticsTest, EventsThatCannotBeSentAreDueOnce) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  int tries = 0;
  transport().decide = [&](const DeliveryAttempt&) {
    return DeliveryResult{
        .status = ++tries < 3 ? DeliveryStatus::kUnsent : DeliveryStatus::kAccepted, .message = ""};
  };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1)});
  world_.Advance(absl::Minutes(2));
  ASSERT_EQ(tries, 3);
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.due, 1u);
  EXPECT_EQ(all.attempts, 1u);
  EXPECT_EQ(all.errors, 0u);
}

TEST_F(HandlerStatisticsTest, RejectedEventsFail) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  transport().decide = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kRejected, .message = ""};
  };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 4, .run_count = 4});
  world_.Advance(absl::Seconds(5));
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.due, 4u);
  EXPECT_EQ(all.failed, 4u);
  EXPECT_EQ(all.errors, 4u);
  EXPECT_EQ(all.succeeded, 0u);
}

TEST_F(HandlerStatisticsTest, SkippedEventsAreDueAndEnd) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(3), .count = 50, .run_count = 50});
  world_.Advance(absl::Seconds(1));
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(4));
  ASSERT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 50u);
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.others, 50u);
  EXPECT_EQ(all.attempts, 0u);
  EXPECT_EQ(all.due, 50u);
}

TEST_F(HandlerStatisticsTest, TokenManagersCountTheEndsOfGrantedEvents) {
  TestTokenManager tokens(world_);
  const Uid uid = world_.AddSchedule("s");
  Start();
  tokens.Grant(uid, {{.count = 3, .on_release = false}});
  world_.Advance(absl::Seconds(3));
  ASSERT_EQ(transport().sent.size(), 3u);
  const StatisticsSums all = Sum(tenant_);
  EXPECT_EQ(all.attempts, 3u);
  EXPECT_EQ(all.due, 3u);
  EXPECT_EQ(all.succeeded, 0u);
}

TEST_F(HandlerStatisticsTest, DrainedHandlerHasWrittenAll) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 5, .run_count = 5});
  world_.Advance(absl::Milliseconds(1200));
  bool drained = false;
  world_.handler("a").Drain([&] { drained = true; });
  world_.Advance(absl::Seconds(1));
  ASSERT_TRUE(drained);
  EXPECT_EQ(StoredSum(world_.Rows(ColumnFamily::kPolicies), tenant_).attempts, 5u);
}

}  // namespace handler_statistics_test
}  // namespace escapement::handler
