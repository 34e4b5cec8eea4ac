// Rows of schedules that have changed are judged soon, also while their policy grants nothing.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/storage/testing/test_state.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace judged_rows_test {

constexpr int kRows = 4;
const absl::Time kThree =
    absl::FromCivil(absl::CivilSecond(2026, 3, 1, 3, 0, 0), absl::UTCTimeZone());

enum class WhyNothing { kFull, kKeyFull, kSlow, kPaused };

class JudgedRowsTest : public ::testing::TestWithParam<WhyNothing> {
 protected:
  // Policy p, which grants nothing for an hour; policy q, which is free.
  void SetUp() override {
    storage::v1::PolicyRecord limits = TokenWorld::Limits(1);
    if (GetParam() == WhyNothing::kSlow) {
      limits.set_max_concurrent(0);
      limits.set_max_per_second(0.001);
    }
    if (GetParam() == WhyNothing::kKeyFull) {
      limits.set_max_concurrent(1000);
      limits.mutable_per_key()->set_max_concurrent(1);  // all are of the empty key
    }
    limits.set_paused(GetParam() == WhyNothing::kPaused);
    world_.PutPolicy("p", limits);
    world_.PutPolicy("q", TokenWorld::Limits(1000));
    world_.Advance(kThree + absl::Minutes(1) - world_.now());
    // Holds the token, or has used up the rate.
    holder_ = world_.AddSchedule("holder", throttled_);
    AddRows(holder_, throttled_, 1);
    world_.Start("a");
    world_.Advance(kSettle);
    EXPECT_EQ(world_.Handle().size(), GetParam() == WhyNothing::kPaused ? 0 : 1);
  }

  void AddRows(const Uid& uid, const TokenWorld::Schedule& schedule, int count) {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(uid, schedule,
                    {.due = kThree + absl::Seconds(i),
                     .occurrence = absl::StrFormat("20260301T0300%02d-0-UTC", i)});
    }
  }
  void Change(const Uid& uid, TokenWorld::Schedule schedule) {
    schedule.version = 2;
    world_.AddDefinition(uid, schedule);
    world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  }
  size_t WaitingOf(const Uid& uid) const {
    const auto waiting = world_.Waiting();
    return std::count_if(waiting.begin(), waiting.end(),
                         [&](const auto& row) { return row.first.uid == uid; });
  }

  TokenWorld world_;
  TokenWorld::Schedule throttled_{.policy_id = "p", .cron = "* * * * * *"};
  Uid holder_;
};

TEST_P(JudgedRowsTest, RowsOfAScheduleMovedToAFreePolicyAreGrantedThere) {
  const Uid uid = world_.AddSchedule("moves", throttled_);
  AddRows(uid, throttled_, kRows);
  world_.Advance(kSettle);
  TokenWorld::Schedule moved = throttled_;
  moved.policy_id = "q";
  Change(uid, moved);
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(world_.Handle().size(), kRows);
  EXPECT_EQ(WaitingOf(uid), 0u);
}

TEST_P(JudgedRowsTest, RowsOfADeletedScheduleEnd) {
  const Uid uid = world_.AddSchedule("deleted", throttled_);
  AddRows(uid, throttled_, kRows);
  world_.Advance(kSettle);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(WaitingOf(uid), 0u);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), kRows);
}

// Also what is not due yet, a retry for example.
TEST_P(JudgedRowsTest, RowsToComeOfADeletedScheduleEnd) {
  const Uid uid = world_.AddSchedule("deleted", throttled_);
  AddRows(uid, throttled_, 1);
  world_.AddRow(uid, throttled_,
                {.due = world_.now() + absl::Hours(1), .occurrence = "20260301T050000-0-UTC"});
  world_.Advance(absl::Seconds(8));
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(WaitingOf(uid), 0u);
}

// The pause changes nothing until the row is due.
TEST_P(JudgedRowsTest, RowThatComesDueInAPauseIsParked) {
  const Uid uid = world_.AddSchedule("pauses", throttled_);
  world_.AddRow(uid, throttled_,
                {.due = world_.now() + absl::Seconds(20), .occurrence = "20260301T030120-0-UTC"});
  world_.Advance(kSettle);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(WaitingOf(uid), 1u);
  world_.Advance(absl::Seconds(20));
  EXPECT_EQ(WaitingOf(uid), 0u);
  EXPECT_EQ(world_.Count(kv::ColumnFamily::kParked), 1u);
}

// It stands between rows of other runs, which stay.
TEST_P(JudgedRowsTest, RowsOfACancelledRunEndAndOthersStay) {
  const Uid uid = world_.AddSchedule("cancelled", throttled_);
  AddRows(uid, throttled_, kRows);
  world_.Advance(kSettle);
  world_.Commit({.mutations = {StatePut(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 1,
                                        absl::UnixEpoch(), "20260301T030002-0-UTC")}});
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(WaitingOf(uid), static_cast<size_t>(kRows - 1));
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_CANCELLED), 1u);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 0u);
}

TEST_P(JudgedRowsTest, ChangedPriorityHoldsForWhatWaits) {
  TokenWorld::Schedule last = throttled_;
  last.priority = 9;
  const Uid uid = world_.AddSchedule("urgent", last);
  AddRows(uid, last, kRows);
  world_.Advance(kSettle);
  TokenWorld::Schedule first = last;
  first.priority = 0;
  Change(uid, first);
  world_.Advance(absl::Seconds(8));
  for (const auto& [key, row] : world_.Waiting()) {
    if (key.uid != uid) continue;
    EXPECT_EQ(key.priority, 0);
    EXPECT_EQ(row.priority(), 0u);
  }
  EXPECT_EQ(WaitingOf(uid), kRows);
}

// More schedules than are judged in one turn.
TEST_P(JudgedRowsTest, ManyDeletedSchedulesEndWithinSeconds) {
  constexpr int kSchedules = 2000;
  std::vector<Uid> uids;
  for (int i = 0; i < kSchedules; ++i) {
    uids.push_back(world_.AddSchedule("s" + std::to_string(i), throttled_));
    AddRows(uids.back(), throttled_, 1);
  }
  world_.Advance(absl::Seconds(10));
  for (int i = 0; i < kSchedules; i += 2)
    world_.SetState(uids[i], storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), kSchedules / 2);
}

// Nothing else would look at it before it is due.
TEST(JudgedRowsUnderAFreePolicyTest, RowsToComeOfADeletedScheduleEnd) {
  for (const char* policy : {"p", ""}) {
    TokenWorld world;
    world.PutPolicy("p", TokenWorld::Limits(1000));
    world.Advance(kThree + absl::Minutes(1) - world.now());
    const TokenWorld::Schedule schedule{.policy_id = policy, .cron = "* * * * * *"};
    const Uid uid = world.AddSchedule("s", schedule);
    world.AddRow(uid, schedule, {.due = kThree, .occurrence = "20260301T030000-0-UTC"});
    world.AddRow(uid, schedule,
                 {.due = world.now() + absl::Hours(1), .occurrence = "20260301T050000-0-UTC"});
    world.Start("a");
    world.Advance(kSettle);
    EXPECT_EQ(world.Handle().size(), 1u);
    EXPECT_EQ(world.Waiting().size(), 1u);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
    world.Advance(kSettle);
    EXPECT_TRUE(world.Waiting().empty()) << policy;
    EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 1u);
  }
}

std::string NameOf(const ::testing::TestParamInfo<WhyNothing>& info) {
  switch (info.param) {
    case WhyNothing::kFull:
      return "Full";
    case WhyNothing::kKeyFull:
      return "KeyFull";
    case WhyNothing::kSlow:
      return "Slow";
    case WhyNothing::kPaused:
      return "Paused";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(PolicyIs, JudgedRowsTest,
                         ::testing::Values(WhyNothing::kFull, WhyNothing::kKeyFull,
                                           WhyNothing::kSlow, WhyNothing::kPaused),
                         &NameOf);

}  // namespace judged_rows_test
}  // namespace escapement::token_manager
