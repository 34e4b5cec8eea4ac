// Tests that waiting rows end early when their schedule is deleted or their run is cancelled.

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "common/storage/testing/test_state.h"
#include "gtest/gtest.h"
#include "services/handler/claims/claim_loop.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace retry_sweep_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_CANCELLED;
using storage::v1::OUTCOME_KIND_SKIPPED;

class RetrySweepTest : public ::testing::Test {
 protected:
  RetrySweepTest() { world_.Advance(absl::Seconds(1)); }

  void Start() {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }
  void ExpectQuiet() {
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  }

  HandlerWorld world_;
};

// This holds even if the handler has never seen the schedule.
TEST_F(RetrySweepTest, RetriesOfADeletedScheduleEndLongBeforeTheyAreDue) {
  const Uid uid = world_.AddSchedule("deleted");
  const Uid other = world_.AddSchedule("other");
  for (const Uid& of : {uid, other}) {
    uint64_t first = 0;
    for (const absl::Duration after : {absl::Seconds(20), absl::Hours(3)}) {
      for (uint64_t i = 0; i < 3'000; ++i)
        world_.AddRow(of, {.lane = kLaneRetry, .due = world_.now() + after, .first = first++});
    }
  }
  Start();
  world_.Advance(absl::Seconds(1));
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED), 6'000u);
  for (const storage::v1::DoneRecord& done : world_.Done()) EXPECT_EQ(done.reason(), "deleted");
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 6'000u);
  EXPECT_TRUE(transport().sent.empty());
}

TEST_F(RetrySweepTest, RetriesOfACancelledRunEndAndThoseOfOtherRunsStay) {
  const Uid uid = world_.AddSchedule("s");
  const absl::Time due = world_.now() + absl::Hours(1);
  for (const char* occurrence : {"o1", "o2", "o3"})
    world_.AddRow(uid, {.lane = kLaneRetry, .due = due, .occurrence = occurrence});
  Start();
  world_.Advance(absl::Seconds(1));
  world_.Put(
      ColumnFamily::kStates, StateKey(uid),
      StatePut(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 1, absl::UnixEpoch(), "o2").value);
  world_.Advance(absl::Seconds(3));
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_CANCELLED);
  EXPECT_EQ(world_.Done()[0].reason(), "cancelled");
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 2u);
}

// The target has no room, and none of its attempts ends.
TEST_F(RetrySweepTest, DueRowsOfADeletedScheduleEndWhileTheirTargetIsFull) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  transport().delay = absl::Hours(1);
  for (uint64_t i = 0; i < 100; ++i) {
    world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1),
                        .first = 1000 * i,
                        .count = 1000,
                        .run_count = 100'000});
  }
  world_.Advance(absl::Seconds(2));
  const size_t sent = transport().sent.size();
  ASSERT_LT(sent, 50'000u);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(transport().sent.size(), sent);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_GT(world_.DoneEvents(OUTCOME_KIND_SKIPPED), 50'000u);
}

// Each retry is a row. Many end in one commit; otherwise the work would grow with their square.
TEST_F(RetrySweepTest, ManyRetriesOfADeletedScheduleEndInFewCommits) {
  constexpr uint64_t kRows = 10'000;
  const Uid uid = world_.AddSchedule("s");
  const absl::Time due = world_.now() + absl::Minutes(1);
  for (uint64_t i = 0; i < kRows; ++i) {
    world_.AddRow(uid, {.lane = kLaneRetry, .due = due, .first = i, .run_count = kRows});
  }
  Start();
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  const uint64_t before = world_.quiet_store.commits;
  world_.Advance(due + absl::Seconds(10) - world_.now());
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED), kRows);
  EXPECT_LE(world_.quiet_store.commits - before, kRows / 50);  // leases included
  const storage::v1::RunPartRecord part = world_.OnlyRunPart();
  EXPECT_EQ(part.skipped(), kRows);
  EXPECT_EQ(part.skip_reason(), "deleted");
  ExpectQuiet();
}

}  // namespace retry_sweep_test
}  // namespace escapement::handler
