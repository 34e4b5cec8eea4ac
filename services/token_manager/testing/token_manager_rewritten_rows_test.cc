// Rows that are written again while they wait: by a schedule that is changed back to an occurrence,
// or resumed.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_rewritten_rows_test {

using kv::ColumnFamily;

// An occurrence of the schedules' cron expression.
const absl::Time kThree = absl::FromCivil(absl::CivilHour(2026, 3, 1, 3), absl::UTCTimeZone());
constexpr char kAtThree[] = "20260301T030000-0-UTC";

TEST(RewrittenRowsTest, ARowThatIsResumedBeforeTheAnswerThatItIsParkedIsGranted) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  const std::string key = world.AddRow(uid, schedule, {.due = world.now()});
  world.poor_store.answered_late = [](const kv::CommitRequest& request) {
    return std::any_of(request.groups.begin(), request.groups.end(), [](const auto& group) {
      return std::any_of(group.mutations.begin(), group.mutations.end(),
                         [](const auto& put) { return put.cf == ColumnFamily::kParked; });
    });
  };
  world.Start("a");
  world.Advance(kSettle);
  const auto parked = world.Rows(ColumnFamily::kParked);
  ASSERT_EQ(parked.size(), 1u);
  // As the master does it.
  world.Delete(ColumnFamily::kParked, parked.begin()->first);
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  world.Put(ColumnFamily::kWaiting, key, parked.begin()->second);
  world.Advance(kSettle);
  world.poor_store.LetAnswersGo();
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1u);
}

// The schedule was changed away from the occurrence, and is changed back to it just before it is
// due: as the master does it, the row is written again in the commit of the change.
TEST(RewrittenRowsTest, AnOccurrenceThatIsWantedAgainBeforeItIsDueHasNotEnded) {
  // Before, as and after a token manager first looks at the row.
  for (int i = 0; i < 30; ++i) {
    SCOPED_TRACE(i);
    TokenWorld world;
    TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
    const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
    const Uid uid = world.AddSchedule("s", schedule);
    const absl::Time due = kThree;
    const TokenWorld::Row row{.due = due, .occurrence = kAtThree};
    world.Advance(due - absl::Seconds(10) - world.now());
    world.AddRow(uid, schedule, row);
    schedule.version = 2;
    schedule.cron = "0 4 * * *";
    world.AddDefinition(uid, schedule);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
    world.Start("a");
    world.Advance(due - absl::Milliseconds(i + 1) - world.now());
    EXPECT_EQ(world.Count(ColumnFamily::kDone), 0);  // an end would be written over
    schedule.version = 3;
    schedule.cron = "0 3 * * *";
    world.ChangeSchedule(uid, schedule, row);
    EXPECT_LT(world.now(), due);
    world.Advance(due + absl::Milliseconds(100) - world.now());
    EXPECT_EQ(world.Handle().size(), 1);
    world.Advance(kSettle);
    EXPECT_TRUE(world.Handle().empty());
    EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
    EXPECT_EQ(world.Count(ColumnFamily::kDone), 1);
    EXPECT_EQ(world.Counts(policy).granted(), 1);
  }
}

// A row of one event, which has no run record, is in memory when it is written again with three
// events; and the other way round.
TEST(RewrittenRowsTest, ARowWrittenAnewCountsInTheRunThatItIsOfNow) {
  for (const uint64_t before : {1, 3}) {
    SCOPED_TRACE(before);
    TokenWorld world;
    TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
    const Uid policy = world.PutPolicy("p", TokenWorld::Limits(5));
    const Uid uid = world.AddSchedule("s", schedule);
    TokenWorld::Row row{.due = world.now() + absl::Seconds(20), .count = before};
    world.AddRow(uid, schedule, row);
    world.Start("a");
    world.Advance(absl::Seconds(10));
    schedule.version = 2;
    row.count = 4 - before;
    world.ChangeSchedule(uid, schedule, row);
    world.Advance(absl::Seconds(11));
    EXPECT_EQ(world.Handle().size(), row.count);
    world.Advance(kSettle);
    EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), row.count);
    // Besides the counts of all runs of the schedule.
    EXPECT_EQ(world.Count(ColumnFamily::kRunParts), row.count > 1 ? 2 : 1);
    EXPECT_EQ(world.Part(uid, row.occurrence, policy).succeeded(), row.count > 1 ? row.count : 0);
  }
}

// … and by the watch, before the answer to the commit that granted all of the former row.
TEST(RewrittenRowsTest, ARowWrittenAnewBeforeTheAnswerThatItIsGrantedIsGranted) {
  TokenWorld world;
  TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  world.PutPolicy("p", TokenWorld::Limits(5));
  const Uid uid = world.AddSchedule("s", schedule);
  const TokenWorld::Row row{.due = world.now()};
  world.AddRow(uid, schedule, row);
  world.poor_store.answered_late = [](const kv::CommitRequest& request) {
    return std::any_of(request.groups.begin(), request.groups.end(), [](const auto& group) {
      return std::any_of(group.mutations.begin(), group.mutations.end(),
                         [](const auto& put) { return put.cf == ColumnFamily::kInflight; });
    });
  };
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
  schedule.version = 2;
  world.ChangeSchedule(uid, schedule, row);
  world.Advance(kSettle);
  EXPECT_TRUE(world.Handle().empty());
  world.poor_store.LetAnswersGo();
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
}

// The former policy grants nothing, so its row is judged only when its window closes.
TEST(RewrittenRowsTest, AWindowThatClosesDoesNotEndARowThatAnotherOneStandsFor) {
  TokenWorld world;
  storage::v1::PolicyRecord paused = TokenWorld::Limits(1);
  paused.set_paused(true);
  world.PutPolicy("p", paused);
  world.PutPolicy("q", TokenWorld::Limits(1));
  storage::v1::WindowRecord window;
  window.set_duration_micros(10'000'000);
  window.set_on_close(storage::v1::ON_CLOSE_KIND_DROP);
  TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false, .window = window};
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = kThree;
  const TokenWorld::Row row{.due = due, .occurrence = kAtThree};
  world.Advance(due - absl::Seconds(10) - world.now());
  world.AddRow(uid, schedule, row);
  schedule.version = 2;
  schedule.cron = "0 4 * * *";
  world.AddDefinition(uid, schedule);
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  schedule.version = 3;
  schedule.cron = "0 3 * * *";
  schedule.policy_id = "q";
  world.ChangeSchedule(uid, schedule, row);
  world.Start("a");
  world.Advance(due + absl::Seconds(5) - world.now());
  EXPECT_EQ(world.Handle().size(), 1);
  world.Advance(absl::Seconds(10));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_EXPIRED), 0);
  EXPECT_TRUE(world.Waiting().empty());
}

TEST(RewrittenRowsTest, RowThatBelongsElsewhereDoesNotWaitForAPausedPolicy) {
  TokenWorld world;
  storage::v1::PolicyRecord paused = TokenWorld::Limits(1);
  paused.set_paused(true);
  world.PutPolicy("p", paused);
  world.PutPolicy("q", TokenWorld::Limits(1000));
  // More than one turn judges.
  constexpr int kStay = 300;
  TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  schedule.cron = "* * * * * *";
  const TokenWorld::Row row{.due = kThree, .occurrence = kAtThree};
  world.Advance(kThree + absl::Minutes(1) - world.now());
  for (int i = 0; i < kStay; ++i)
    world.AddRow(world.AddSchedule("s" + std::to_string(i), schedule), schedule, row);
  constexpr int kGo = 50;
  const Uid moves = world.AddSchedule("moves", schedule);
  const Uid deleted = world.AddSchedule("deleted", schedule);
  for (int i = 0; i < kGo; ++i) {
    const TokenWorld::Row one{.due = kThree + absl::Seconds(i),
                              .occurrence = absl::StrFormat("20260301T0300%02d-0-UTC", i)};
    world.AddRow(moves, schedule, one);
    world.AddRow(deleted, schedule, one);
  }
  world.Start("a");
  world.Advance(kSettle);
  schedule.version = 2;
  schedule.policy_id = "q";
  world.AddDefinition(moves, schedule);
  world.SetState(moves, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world.SetState(deleted, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world.Advance(absl::Seconds(20));
  EXPECT_EQ(world.Handle().size(), kGo);
  const auto waiting = world.Waiting();
  EXPECT_TRUE(std::all_of(waiting.begin(), waiting.end(), [&](const auto& row) {
    return row.first.uid != moves && row.first.uid != deleted;
  }));
  EXPECT_EQ(waiting.size(), kStay);
}

// Carried over to an occurrence that may be months away. Few are all in memory, of many most are
// in the store only.
TEST(RewrittenRowsTest, RowThatWaitsForAFarWindowEndsSoonAfterItsSchedule) {
  for (const int rows : {3, 700}) {
    for (const bool even : {false, true}) {
      SCOPED_TRACE(rows);
      TokenWorld world;
      world.PutPolicy("p", TokenWorld::Limits(1000));
      storage::v1::WindowRecord window;
      window.set_duration_micros(10'000'000);
      window.set_even(even);
      window.set_on_close(storage::v1::ON_CLOSE_KIND_CARRY_OVER);
      const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false, .window = window};
      const absl::Time far = world.now() + absl::Hours(2);
      const auto add = [&](const Uid& uid) {
        for (int i = 0; i < rows; ++i)
          world.AddRow(
              uid, schedule,
              {.due = world.now(), .occurrence = absl::StrCat("o", i), .window_begin = far});
      };
      const Uid goes = world.AddSchedule("goes", schedule);
      const Uid stays = world.AddSchedule("stays", schedule);
      add(goes);
      add(stays);
      world.Start("a");
      world.Advance(absl::Minutes(5));
      EXPECT_EQ(world.Waiting().size(), 2 * rows);
      world.SetState(goes, storage::v1::SCHEDULE_STATE_KIND_DELETED);
      world.Advance(absl::Seconds(90));
      EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), rows);
      EXPECT_EQ(world.Waiting().size(), rows);
      EXPECT_TRUE(world.Handle().empty());
      world.Advance(far + absl::Seconds(20) - world.now());
      EXPECT_EQ(world.Handle().size(), rows);
    }
  }
}

// Its key says when its window opens, and no other row makes its schedule known.
TEST(RewrittenRowsTest, RetryThatWaitsForAFarWindowEndsSoonAfterItsSchedule) {
  TokenWorld world;
  world.PutPolicy("p", TokenWorld::Limits(1000));
  storage::v1::WindowRecord window;
  window.set_duration_micros(10'000'000);
  window.set_on_close(storage::v1::ON_CLOSE_KIND_CARRY_OVER);
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false, .window = window};
  const absl::Time far = world.now() + absl::Hours(24 * 365);
  const Uid uid = world.AddSchedule("s", schedule);
  const std::string former = world.AddRow(uid, schedule, {.due = world.now(), .window_begin = far});
  auto [key, row] = world.Waiting().at(0);
  world.Delete(ColumnFamily::kWaiting, former);
  key.due_time = far;
  row.set_attempts(1);
  world.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row.SerializeAsString());
  world.Start("a");
  world.Advance(absl::Minutes(5));
  EXPECT_EQ(world.Waiting().size(), 1u);
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world.Advance(absl::Seconds(90));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 1u);
  EXPECT_TRUE(world.Waiting().empty());
}

}  // namespace token_manager_rewritten_rows_test
}  // namespace escapement::token_manager
