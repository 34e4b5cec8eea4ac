// Races between claims and calls of users: the store decides, and the later one has no effect.

#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/storage/schedule_table.h"
#include "common/storage/testing/test_state.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/handler/sending/send_loop.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_races_test {

using kv::ColumnFamily;
using kv::Condition;
using storage::v1::OUTCOME_KIND_SKIPPED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

absl::Time ClaimedAt(absl::Time due) { return ClaimLead().ClaimTimeOf(due); }

// The claim takes less than a millisecond, so the tests cover it in steps of 25 µs.
class ClaimRaceTest : public ::testing::TestWithParam<int> {
 protected:
  ClaimRaceTest() {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
    due_ = world_.now() + absl::Seconds(1);
  }
  // Adds a row of version 1, due at due_. Version 2 does not have its occurrence, version 3 has it
  // again. `current` is the version in force.
  struct FormerRow {
    Uid uid;
    std::string key;
    std::string again;  // the row that version 3 writes
  };
  FormerRow AddFormerRow(uint64_t current) {
    const Uid uid = world_.AddSchedule("s");
    const absl::CivilSecond three(2026, 3, 1, 3, 0, 0);
    const std::string key = world_.AddRow(
        uid, {.due = due_,
              .occurrence = cron::FormatCalendarOccurrence(three, 0, "UTC"),
              .nominal_micros = ToMicros(absl::FromCivil(three, absl::UTCTimeZone()))});
    world_.AddDefinition(uid, 2, "0 4 * * *");
    world_.AddDefinition(uid, 3, "0 3 * * *");
    world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, current);
    storage::v1::EventRecord again;
    EXPECT_TRUE(again.ParseFromString(world_.Rows(ColumnFamily::kEvents).at(key)));
    again.set_version(3);
    return {.uid = uid, .key = key, .again = again.SerializeAsString()};
  }
  void AdvanceIntoTheClaim() {
    world_.Advance(ClaimedAt(due_) - world_.now() - absl::Microseconds(100) +
                   absl::Microseconds(25) * GetParam());
  }

  HandlerWorld world_;
  absl::Time due_;
};

TEST_P(ClaimRaceTest, AOneOffEventIsEitherCancelledOrSent) {
  const std::string key = world_.AddOneOff("e", due_, "p");
  AdvanceIntoTheClaim();
  kv::Group cancel;
  cancel.conditions.push_back(
      {.cf = ColumnFamily::kEvents, .key = key, .kind = Condition::Kind::kPresent});
  cancel.conditions.push_back(
      {.cf = ColumnFamily::kMeta, .key = ClaimMarkKey(0), .kind = Condition::Kind::kAbsent});
  cancel.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .kind = kv::Mutation::Kind::kDelete, .key = key});
  const bool cancelled = world_.Commit(std::move(cancel));
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.transport("a").sent.size(), cancelled ? 0u : 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

TEST_P(ClaimRaceTest, PausedRowsAreEitherSentOrParkedNeverBoth) {
  const Uid uid = world_.AddSchedule("s");
  world_.AddRow(uid, {.due = due_, .count = 10});
  AdvanceIntoTheClaim();
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  const absl::Time paused = world_.now();
  world_.Advance(absl::Seconds(3));
  const size_t parked = world_.Count(ColumnFamily::kParked);
  EXPECT_EQ(world_.transport("a").sent.size() + 10 * parked, 10u);
  // The pause was acknowledged well before the due time, and the watch had reported it by then.
  if (paused < due_ - absl::Milliseconds(1)) {
    EXPECT_EQ(parked, 1u);
  }
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

TEST_P(ClaimRaceTest, ADeletedScheduleHasEachEventSkippedOrSent) {
  const Uid uid = world_.AddSchedule("s");
  world_.AddRow(uid, {.due = due_, .count = 10});
  AdvanceIntoTheClaim();
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED) + world_.DoneEvents(OUTCOME_KIND_SUCCEEDED),
            10u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), world_.transport("a").sent.size());
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

// The change is acknowledged well before the due time, and the watch has reported it by then.
TEST_P(ClaimRaceTest, ClaimedRowThatIsSupersededIsNotSent) {
  const FormerRow row = AddFormerRow(1);
  AdvanceIntoTheClaim();
  world_.SetState(row.uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.transport("a").sent.size(), 0u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

// The schedule still has the occurrence, but its events must wait for a token.
TEST_P(ClaimRaceTest, RowsOfAScheduleThatGainsAPolicyAreEitherSentOrMovedToWait) {
  const Uid uid = world_.AddSchedule("s");
  const absl::CivilSecond three(2026, 3, 1, 3, 0, 0);
  world_.AddRow(uid, {.due = due_,
                      .occurrence = cron::FormatCalendarOccurrence(three, 0, "UTC"),
                      .count = 10,
                      .nominal_micros = ToMicros(absl::FromCivil(three, absl::UTCTimeZone()))});
  world_.throttle.emplace().set_policy_id("gpu");
  world_.AddDefinition(uid, 2, "0 3 * * *");
  AdvanceIntoTheClaim();
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world_.Advance(absl::Seconds(3));
  const auto waiting = world_.Rows(ColumnFamily::kWaiting);
  ASSERT_LE(waiting.size(), 1u);
  EXPECT_EQ(world_.transport("a").sent.size() + 10 * waiting.size(), 10u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED) + 10 * waiting.size(), 10u);
  if (GetParam() == 0) {
    EXPECT_EQ(waiting.size(), 1u);  // the policy came before the claim
  }
  for (const auto& [key, value] : waiting) {
    const std::optional<WaitingKey> at = DecodeWaitingKey(key);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->uid, uid);
    EXPECT_EQ(at->policy, PolicyUid("default", "gpu"));
    EXPECT_EQ(at->due_time, due_);
    storage::v1::EventRecord row;
    row.ParseFromString(value);
    EXPECT_EQ(row.count(), 10u);
    EXPECT_EQ(row.throttle().policy_id(), "gpu");
  }
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

// Without the condition on the state the claim would apply, and the pause be noticed too late.
TEST(ClaimAgainstPauseTest, ClaimOnAChangedStateDoesNotApply) {
  uint64_t failed = 0;
  for (int step = 0; step < 200; ++step) {
    HandlerWorld world;
    world.StartHandler("a");
    world.Advance(absl::Seconds(1));
    const absl::Time due = world.now() + absl::Seconds(1);
    const Uid uid = world.AddSchedule("s");
    // The first occurrence brings the state into the cache, so the second is judged without a read.
    world.AddRow(uid, {.due = due - absl::Milliseconds(500), .occurrence = "first"});
    world.AddRow(uid, {.due = due, .occurrence = "second"});
    world.Advance(ClaimedAt(due) - world.now() - absl::Microseconds(400) +
                  absl::Microseconds(10) * step);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
    world.Advance(absl::Seconds(3));
    failed += world.handler("a").metrics().claims_failed.Value();
    EXPECT_EQ(world.transport("a").sent.size(), 1u);
    EXPECT_EQ(world.Count(ColumnFamily::kParked), 1u);
  }
  EXPECT_GT(failed, 0u);
}

TEST(ClaimAgainstPauseTest, RowResumedBeforeItsParkingIsAnsweredIsSent) {
  HandlerWorld world;
  world.StartHandler("a");
  world.Advance(absl::Seconds(1));
  const Uid uid = world.AddSchedule("s");
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  const std::string key = world.AddRow(uid, {.due = world.now() + absl::Seconds(1)});
  world.quiet_store.HoldAnswersOfParked();
  world.Advance(absl::Seconds(2));
  const auto parked = world.Rows(ColumnFamily::kParked);
  ASSERT_EQ(parked.size(), 1u);
  // The same commit as the master's.
  kv::Group resume;
  resume.mutations.push_back({.cf = ColumnFamily::kParked,
                              .kind = kv::Mutation::Kind::kDelete,
                              .key = parked.begin()->first});
  resume.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .key = key, .value = parked.begin()->second});
  EXPECT_TRUE(world.Commit(std::move(resume)));
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  world.Advance(absl::Seconds(2));
  world.quiet_store.TellAll();
  world.Advance(absl::Seconds(3));
  EXPECT_EQ(world.transport("a").sent.size(), 1u);
  EXPECT_EQ(world.Count(ColumnFamily::kEvents), 0u);
}

// The answer of the claim comes late, and the schedule may have changed before it.
TEST(ClaimAgainstPauseTest, ClaimWithALateAnswerIsJudgedAgain) {
  for (const bool late : {false, true}) {
    HandlerWorld world;
    world.timeout = absl::Seconds(2);
    world.StartHandler("a");
    world.Advance(absl::Seconds(1));
    const absl::Time due = world.now() + absl::Seconds(1);
    const Uid uid = world.AddSchedule("s");
    world.AddRow(uid, {.due = due, .count = 3});
    world.Advance(ClaimedAt(due) - world.now() - absl::Milliseconds(10));
    world.quiet_store.BeQuiet();
    world.Advance(absl::Milliseconds(100));
    EXPECT_EQ(world.Count(ColumnFamily::kInflight), 1u);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
    world.Advance(late ? absl::Milliseconds(2100) : absl::Milliseconds(500));
    world.quiet_store.TellAll();
    world.Advance(absl::Seconds(3));
    EXPECT_EQ(world.transport("a").sent.size(), late ? 0u : 3u);
    EXPECT_EQ(world.Count(ColumnFamily::kParked), late ? 1u : 0u);
    EXPECT_EQ(world.Count(ColumnFamily::kInflight), 0u);
  }
}

// Updates have removed the occurrence and added it again, now with an overlap policy. The row of
// the first version is left over, and the launch writes another one in its place.
TEST_P(ClaimRaceTest, RowWrittenOverALeftOverRowIsSent) {
  const FormerRow row = AddFormerRow(/*current=*/3);
  // The steps cover the decision, the wait and the commit of the end of the left-over row.
  world_.Advance(ClaimedAt(due_) - world_.now() - absl::Microseconds(100) +
                 absl::Microseconds(100) * GetParam());
  world_.Put(ColumnFamily::kEvents, row.key, row.again);
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.transport("a").sent.size(), 1u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

// An update has removed the occurrence, and another one adds it again just before it is due. Like
// the master, the test writes the row again in the commit of the update.
TEST_P(ClaimRaceTest, OccurrenceAddedAgainBeforeItIsDueHasNotEnded) {
  const FormerRow row = AddFormerRow(/*current=*/2);
  world_.Advance(due_ - world_.now() - absl::Milliseconds(2 + GetParam()));
  EXPECT_EQ(world_.Count(ColumnFamily::kDone), 0u);  // an end now would be overwritten later
  kv::Group change;
  change.mutations.push_back({.cf = ColumnFamily::kEvents, .key = row.key, .value = row.again});
  change.mutations.push_back(StatePut(row.uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 3));
  EXPECT_TRUE(world_.Commit(std::move(change)));
  EXPECT_LT(world_.now(), due_);
  world_.Advance(absl::Seconds(3));
  ASSERT_EQ(world_.transport("a").sent.size(), 1u);
  EXPECT_LE(world_.transport("a").sent[0].at, due_ + absl::Milliseconds(3));
  EXPECT_EQ(world_.Count(ColumnFamily::kDone), 1u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

// A read or a watch may tell late of a row of which events have been claimed and given back.
TEST(LateReadTest, RowWithFewerEventsThanWereReadIsClaimedAsItIs) {
  HandlerWorld world;
  world.StartHandler("a");
  world.Advance(absl::Seconds(1));
  const absl::Time due = world.now() + absl::Seconds(1);
  const std::string key =
      world.AddRow(world.AddSchedule("s"), {.due = due, .count = 10, .run_count = 10});
  world.Advance(absl::Milliseconds(10));
  world.quiet_store.BeQuiet();
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(world.Rows(ColumnFamily::kEvents).at(key)));
  row.set_count(4);
  world.Put(ColumnFamily::kEvents, key, row.SerializeAsString());
  world.Advance(absl::Milliseconds(10));
  world.quiet_store.TellAll();
  world.Advance(absl::Seconds(3));
  EXPECT_EQ(world.transport("a").sent.size(), 4u);
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), 4u);
  EXPECT_EQ(world.Count(ColumnFamily::kEvents), 0u);
}

// As a handler has them whose read of the first was answered after its event was tried.
TEST(LateReadTest, RowsThatTellOfTheSameEventsEndOneAfterTheOther) {
  HandlerWorld world;
  world.StartHandler("a");
  const Uid uid = world.AddSchedule("s");
  const absl::Time due = world.now() + absl::Seconds(5);
  world.AddRow(uid, {.due = due, .count = 4, .run_count = 4});
  world.AddRow(uid, {.lane = kLaneRetry, .due = due, .count = 1, .run_count = 4});
  world.AddRow(world.AddSchedule("other"), {.due = due});
  world.Advance(absl::Seconds(1));
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world.Advance(absl::Seconds(7));
  EXPECT_EQ(world.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
}

INSTANTIATE_TEST_SUITE_P(Instants, ClaimRaceTest, ::testing::Range(0, 80));

}  // namespace handler_races_test
}  // namespace escapement::handler
