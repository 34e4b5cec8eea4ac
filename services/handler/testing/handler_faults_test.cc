// Tests with faults: handlers die, pause, leave or join, the store fails, consumers do not answer.

#include <map>
#include <set>

#include "common/base/proto_time.h"
#include "common/kv/layout.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_faults_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

std::map<std::string, int> SendsById(const std::vector<SentEvent>& sent) {
  std::map<std::string, int> sends;
  for (const SentEvent& event : sent) ++sends[event.attempt.event_id];
  return sends;
}

void ExpectNeverEarly(const std::vector<SentEvent>& sent) {
  for (const SentEvent& event : sent) EXPECT_GE(event.at, event.attempt.context->launch_time);
}

TEST(UnreadShardTest, AShardThatIsHeldAndNotReadCountsAsOverdue) {
  HandlerWorld world;
  const Uid uid = world.AddSchedule("s");
  world.quiet_store.HoldAnswersOfScans();
  HandlerService& handler = world.StartHandler("a");
  const Gauge& overdue = handler.metrics().oldest_overdue_seconds;
  world.Advance(absl::Seconds(10));
  ASSERT_EQ(handler.metrics().shards_held.Value(), HandlerWorld::kShards);
  world.AddRow(uid, {.due = world.now() + absl::Seconds(1)});
  world.Advance(absl::Minutes(2));
  EXPECT_GT(overdue.Value(), 100);
  world.quiet_store.TellAll();
  world.Advance(absl::Seconds(10));
  EXPECT_EQ(world.Sent().size(), 1u);
  EXPECT_LT(overdue.Value(), 1);
}

// Kills the handler at one instant between claim, send and end, and lets another one take over.
class TakeoverTest : public ::testing::TestWithParam<int> {};

TEST_P(TakeoverTest, EveryEventEndsOnceWhereverItsHandlerDies) {
  HandlerWorld world;
  world.timeout = absl::Seconds(2);
  const Uid uid = world.AddSchedule("s");
  world.StartHandler("a");
  world.transport("a").delay = absl::Milliseconds(10);
  world.Advance(absl::Seconds(1));
  const absl::Time due = world.now() + absl::Seconds(1);
  world.AddRow(uid, {.due = due, .count = 20});
  for (int i = 0; i < 10; ++i) {
    world.AddRow(uid, {.shard = 1, .due = due, .occurrence = "n" + std::to_string(i)});
    world.AddOneOff("one-off-" + std::to_string(i), due, "p");
  }
  const absl::Duration offset = absl::Microseconds(100) * GetParam();
  world.Advance(due - world.now() - absl::Milliseconds(21) + offset);
  const absl::Time killed = world.now();
  world.KillHandler("a");
  world.StartHandler("b");
  world.Advance(absl::Seconds(20));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), 40u);
  EXPECT_EQ(world.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world.Count(ColumnFamily::kInflight), 0u);
  const storage::v1::RunPartRecord part = world.OnlyRunPart();
  EXPECT_EQ(part.succeeded(), 20u);
  const std::vector<SentEvent> sent = world.Sent();
  ExpectNeverEarly(sent);
  EXPECT_EQ(SendsById(sent).size(), 40u);
  std::set<std::string> before;
  for (const SentEvent& event : sent) {
    if (event.at <= killed) {
      before.insert(event.attempt.event_id);
    } else if (before.contains(event.attempt.event_id)) {
      // The lease was renewed at most a second before, so it lasts 4 s more. Its attempts can be
      // open for 2 s after that.
      EXPECT_GE(event.at, killed + absl::Seconds(4) + world.timeout);
    }
  }
  for (const auto& [id, sends] : SendsById(sent)) EXPECT_LE(sends, before.contains(id) ? 2 : 1);
}

// From before the claim (-21 ms) to after the end (+14 ms), most finely where commits are under
// way.
INSTANTIATE_TEST_SUITE_P(AtInstants, TakeoverTest,
                         ::testing::Values(0, 8, 10, 11, 12, 13, 14, 15, 20, 100, 205, 208, 210,
                                           211, 212, 215, 250, 300, 309, 310, 311, 312, 313, 314,
                                           315, 320, 350));

class HandlerFaultsTest : public ::testing::Test {
 protected:
  void AddRows(int count, absl::Duration apart, const std::string& prefix = "o") {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(uid_, {.shard = static_cast<uint16_t>(i % 2),
                           .due = world_.now() + absl::Seconds(1) + apart * i,
                           .occurrence = prefix + std::to_string(i)});
    }
  }
  void ExpectEachOnce(size_t count) {
    EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), count);
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
    const std::vector<SentEvent> sent = world_.Sent();
    ExpectNeverEarly(sent);
    EXPECT_EQ(sent.size(), count);
    EXPECT_EQ(SendsById(sent).size(), count);
  }

  HandlerWorld world_;
  Uid uid_ = world_.AddSchedule("s");
};

TEST_F(HandlerFaultsTest, JoiningAndDrainingHandlersLoseAndRepeatNothing) {
  world_.StartHandler("a");
  world_.transport("a").delay = absl::Milliseconds(300);
  world_.Advance(absl::Seconds(1));
  AddRows(400, absl::Milliseconds(25));
  world_.StartHandler("b");
  world_.transport("b").delay = absl::Milliseconds(300);
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(world_.handler("a").metrics().shards_held.Value(), 1u);
  EXPECT_EQ(world_.handler("b").metrics().shards_held.Value(), 1u);
  bool drained = false;
  world_.handler("a").Drain([&] { drained = true; });
  world_.Advance(absl::Seconds(2));
  EXPECT_TRUE(drained);
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(world_.handler("b").metrics().shards_held.Value(), 2u);
  EXPECT_GT(world_.transport("b").sent.size(), 100u);
  ExpectEachOnce(400);
}

TEST_F(HandlerFaultsTest, WorkContinuesAfterAnOutageOfTheStore) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(6));
  AddRows(300, absl::Milliseconds(20));
  world_.Advance(absl::Seconds(2));
  world_.store.Crash(kv::MemKvStore::Unsynced::kKept);
  world_.Advance(absl::Milliseconds(1500));
  world_.store.Restart();
  world_.Advance(absl::Seconds(20));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 300u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  ExpectNeverEarly(world_.Sent());
  EXPECT_EQ(SendsById(world_.Sent()).size(), 300u);
}

TEST_F(HandlerFaultsTest, WorkContinuesAfterACommitThatTheStoreCallsInvalid) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(6));
  world_.quiet_store.RefuseNextEnds();
  AddRows(300, absl::Milliseconds(20));
  world_.Advance(absl::Seconds(30));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 300u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(SendsById(world_.Sent()).size(), 300u);
}

TEST_F(HandlerFaultsTest, LostUnsyncedCommitsCostNoEvent) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(6));
  AddRows(300, absl::Milliseconds(20));
  for (int i = 0; i < 8; ++i) {
    world_.Advance(absl::Microseconds(700'130));
    world_.store.Crash(kv::MemKvStore::Unsynced::kLost);
    world_.store.Restart();
  }
  world_.Advance(absl::Seconds(20));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 300u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(world_.handler("a").metrics().events_out.Value(), 0u);
  EXPECT_EQ(SendsById(world_.Sent()).size(), 300u);
}

TEST_F(HandlerFaultsTest, RowsWrittenWhileTheWatchWasLostAreFound) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(6));
  // A restart ends all watches. The rows are written before the next watch opens.
  world_.store.Crash(kv::MemKvStore::Unsynced::kKept);
  world_.store.Restart();
  AddRows(20, absl::Milliseconds(20), "w");
  world_.Advance(absl::Seconds(10));
  ExpectEachOnce(20);
}

TEST_F(HandlerFaultsTest, ATargetThatNeverAnswersDoesNotDelayAnother) {
  HandlerOptions options;
  options.target_events_out_max = 16;
  options.blocked_rows_max = 8;
  options.lane_rows_max = 64;
  HandlerWorld world(options);
  const Uid dead = world.AddSchedule("dead", "dead");
  const Uid alive = world.AddSchedule("alive", "alive");
  world.StartHandler("a");
  world.transport("a").decide =
      [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.context->target_key == "grpc:dead") return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  world.Advance(absl::Seconds(1));
  const absl::Time begin = world.now() + absl::Seconds(1);
  for (int i = 0; i < 500; ++i)
    world.AddRow(dead, {.due = begin, .occurrence = "d" + std::to_string(i)});
  for (int i = 0; i < 50; ++i) {
    world.AddRow(alive, {.due = begin + absl::Seconds(4) + absl::Milliseconds(20) * i,
                         .occurrence = "a" + std::to_string(i)});
  }
  world.Advance(absl::Seconds(8));
  EXPECT_EQ(world.transport("a").CountTo("grpc:alive"), 50u);
  for (const SentEvent& sent : world.transport("a").sent) {
    if (sent.target != "grpc:alive") continue;
    EXPECT_LE(sent.at, sent.attempt.context->launch_time + absl::Milliseconds(200));
  }
  EXPECT_LE(world.transport("a").CountTo("grpc:dead"), 16u);
  // The target is back: evicted rows are read again, and nothing is lost.
  world.transport("a").decide = nullptr;
  world.Advance(absl::Seconds(60));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), 550u);
  EXPECT_EQ(world.Count(ColumnFamily::kEvents), 0u);
}

TEST_F(HandlerFaultsTest, PausedProcessSendsNothingAfterItsLeaseHasEnded) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(6));
  AddRows(100, absl::Milliseconds(100));
  world_.Advance(absl::Seconds(2));
  world_.KillHandler("a");
  world_.StartHandler("b");
  world_.Advance(absl::Seconds(40));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 100u);
  ExpectNeverEarly(world_.Sent());
}

TEST_F(HandlerFaultsTest, PausedClaimsOfADeadHandlerAreParkedAndSentOnResume) {
  world_.timeout = absl::Seconds(2);
  const Uid uid = world_.AddSchedule("short");
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(1));
  world_.transport("a").decide = [](const DeliveryAttempt&) { return std::nullopt; };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 30});
  world_.Advance(absl::Milliseconds(1100));
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 1u);
  world_.KillHandler("a");
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.StartHandler("b");
  world_.Advance(absl::Seconds(20));
  EXPECT_TRUE(world_.transport("b").sent.empty());
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  const auto parked = world_.Rows(ColumnFamily::kParked);
  ASSERT_EQ(parked.size(), 1u);
  // Does the same as a resume.
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  world_.Put(ColumnFamily::kEvents, EventKeyOfParked(parked.begin()->first),
             parked.begin()->second);
  world_.Advance(absl::Seconds(2));
  EXPECT_EQ(world_.transport("b").sent.size(), 30u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 30u);
}

// The successor has an old state of the schedule in its cache when it sends the claims of the dead
// handler again. No commit before the sending would find the pause.
TEST_F(HandlerFaultsTest, ClaimsOfADeadHandlerAreJudgedByTheStoredState) {
  world_.timeout = absl::Seconds(2);
  const Uid uid = world_.AddSchedule("short");
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(1));
  world_.transport("a").decide = [](const DeliveryAttempt&) { return std::nullopt; };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 30});
  world_.Advance(absl::Milliseconds(1100));
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 1u);
  world_.KillHandler("a");
  world_.StartHandler("b");
  world_.AddRow(uid, {.due = world_.now(), .occurrence = "o2"});
  while (world_.transport("b").sent.empty()) world_.Advance(absl::Milliseconds(100));
  world_.quiet_store.BeQuiet();
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.Advance(absl::Seconds(4));
  world_.quiet_store.TellAll();
  world_.Advance(absl::Seconds(2));
  EXPECT_EQ(world_.transport("b").sent.size(), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kParked), 1u);
}

TEST_F(HandlerFaultsTest, ClaimOfOneOffEventsWritesTheMarkForCancel) {
  world_.StartHandler("a");
  world_.Advance(absl::Seconds(1));
  AddRows(2, absl::ZeroDuration());
  world_.Advance(absl::Seconds(2));
  EXPECT_FALSE(world_.Rows(ColumnFamily::kMeta).contains(ClaimMarkKey(0)));
  world_.AddOneOff("e", world_.now(), "p");
  world_.Advance(absl::Seconds(2));
  EXPECT_TRUE(world_.Rows(ColumnFamily::kMeta).contains(ClaimMarkKey(0)));
}

TEST_F(HandlerFaultsTest, DoneDaysAreDroppedAfterRetentionAndTheirRows) {
  const absl::Time now = world_.now();
  storage::v1::DoneRecord done;
  done.set_count(1);
  const auto add = [&](absl::Time launch, uint16_t shard) {
    world_.Put(
        ColumnFamily::kDone,
        EncodeDoneKey(
            {.shard = shard, .day = DoneDay(launch), .uid = uid_, .occurrence = "x", .first = 0}),
        done.SerializeAsString());
  };
  // The last byte of this day's number is 0xff, which has no successor.
  add(absl::UnixEpoch() + absl::Hours(24) * (DoneDay(now - absl::Hours(24 * 20)) / 256 * 256 - 1),
      0);
  add(now - absl::Hours(24 * 20), 0);
  add(now - absl::Hours(24 * 9), 0);
  add(now - absl::Hours(24 * 2), 0);
  add(now - absl::Hours(24 * 9), 1);
  world_.StartHandler("a");
  world_.Advance(absl::Minutes(3));
  const auto left = world_.Rows(ColumnFamily::kDone);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(DecodeDoneKey(left.begin()->first)->day, DoneDay(now - absl::Hours(24 * 2)));
}

TEST_F(HandlerFaultsTest, RunsAreDroppedWithTheirDoneDayAndAllCounts) {
  const absl::Time launch = world_.now() - absl::Hours(24 * 9);
  const auto add = [&](const std::string& occurrence, uint64_t n, bool run_kept, bool complete) {
    storage::v1::DoneRecord done;
    done.set_count(n);
    done.set_run_count(n);
    done.set_run_kept(run_kept);
    world_.Put(ColumnFamily::kDone,
               EncodeDoneKey({.shard = 1,
                              .day = DoneDay(launch),
                              .uid = uid_,
                              .occurrence = occurrence,
                              .first = 0}),
               done.SerializeAsString());
    const RunKey run{.uid = uid_, .occurrence = occurrence};
    storage::v1::RunRecord record;
    record.set_complete_time_micros(complete ? ToMicros(launch) : 0);
    world_.Put(ColumnFamily::kRuns, EncodeRunKey(run), record.SerializeAsString());
    for (const uint16_t part : {uint16_t{1}, PolicyRunPart(5), kMasterRunPart})
      world_.Put(ColumnFamily::kRunParts, RunPartKey(run, part), "");
  };
  add("large", 10, false, true);
  const RunKey large{.uid = uid_, .occurrence = "large"};
  for (uint16_t shard = 0; shard < kv::kLayoutNumberMax; ++shard)
    world_.Put(ColumnFamily::kRunParts, RunPartKey(large, PolicyRunPart(shard)), "");
  add("kept", 1, true, true);
  add("active", 10, false, false);
  world_.StartHandler("a");
  world_.Advance(absl::Minutes(3));
  EXPECT_EQ(world_.Count(ColumnFamily::kDone), 0u);
  const auto runs = world_.Rows(ColumnFamily::kRuns);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(DecodeRunKey(runs.begin()->first)->occurrence, "active");
  EXPECT_EQ(world_.Count(ColumnFamily::kRunParts), 3u);
}

// Both events are due at one instant. A successor waits for the timeouts of a lost handler's
// claims.
TEST(HandlerLostTest, DeliveryWithALongTimeoutDelaysNoOtherAtTakeover) {
  constexpr int kEach = 20;
  HandlerWorld world;
  world.timeout = absl::Hours(1);
  const Uid slow = world.AddSchedule("slow", "slow");
  world.timeout = absl::Seconds(10);
  const Uid quick = world.AddSchedule("quick", "quick");
  const absl::Time due = world.now() + absl::Seconds(2);
  for (int i = 0; i < kEach; ++i) {
    for (const Uid& uid : {slow, quick})
      world.AddRow(uid, {.due = due, .occurrence = "o" + std::to_string(i)});
  }
  world.StartHandler("a");
  world.transport("a").decide = [](const DeliveryAttempt&) { return std::nullopt; };
  world.Advance(absl::Seconds(3));
  EXPECT_EQ(world.Sent().size(), 2u * kEach);
  world.KillHandler("a");
  world.StartHandler("b");
  world.Advance(absl::Seconds(30));
  EXPECT_EQ(world.transport("b").CountTo("grpc:quick"), size_t{kEach});
  EXPECT_EQ(world.transport("b").CountTo("grpc:slow"), 0u);
  world.Advance(absl::Hours(1));
  EXPECT_EQ(world.transport("b").CountTo("grpc:slow"), size_t{kEach});
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 2u * kEach);
}

}  // namespace handler_faults_test
}  // namespace escapement::handler
