// Tests which rows a handler scans, which rows its watch reports, and when.

#include "services/handler/shard/shard_loader.h"

#include <algorithm>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace shard_loader_test {

class ShardLoaderTest : public testing::Test {
 protected:
  explicit ShardLoaderTest(HandlerOptions options = {}) : options_(options), world_(options) {}

  void Start() {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }
  // Adds rows of one schedule each, one per millisecond from `due` on.
  void AddRows(int count, absl::Time due) {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(world_.AddSchedule("s" + std::to_string(++schedules_)),
                    {.due = due + absl::Milliseconds(i)});
    }
  }
  void ExpectAllSentOnTime(size_t events) {
    EXPECT_EQ(transport().sent.size(), events);
    for (const SentEvent& sent : transport().sent) {
      EXPECT_GE(sent.at, sent.attempt.context->launch_time);
      EXPECT_LE(sent.at, sent.attempt.context->launch_time + absl::Milliseconds(3));
    }
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kInflight), 0u);
  }

  const HandlerOptions options_;
  HandlerWorld world_;
  int schedules_ = 0;
};

TEST_F(ShardLoaderTest, QuietLanesAreReadOnceAMinute) {
  Start();
  const uint64_t scans = world_.quiet_store.event_scans;
  world_.Advance(absl::Minutes(4));
  EXPECT_LE(world_.quiet_store.event_scans - scans, HandlerWorld::kShards * kLaneCount * 4);
}

TEST_F(ShardLoaderTest, LaneReadFarAheadKeepsOnlyRowsWithinTheHorizon) {
  Start();
  std::set<absl::Time> dues;
  for (int i = 1; i <= 55; ++i) {
    // The rows are not in order, and one of them is within the horizon.
    dues.insert(world_.now() + absl::Seconds(i * 21 % 56));
    world_.AddRow(world_.AddSchedule("s" + std::to_string(i)),
                  {.due = world_.now() + absl::Seconds(i * 21 % 56)});
  }
  for (int second = 0; second < 60; ++second) {
    world_.Advance(absl::Seconds(1));
    const auto last_loaded = dues.upper_bound(world_.now() + kHorizon);
    EXPECT_LE(world_.handler("a").metrics().rows_loaded.Value(),
              static_cast<uint64_t>(std::distance(dues.begin(), last_loaded)));
  }
  ExpectAllSentOnTime(55);
}

TEST_F(ShardLoaderTest, RowsBeyondTheLoadedPartAreNotWatched) {
  Start();
  const absl::Time later = world_.now() + kQuietHorizon + absl::Minutes(1);
  AddRows(20, later);
  EXPECT_EQ(world_.quiet_store.rows_told, 0u);
  world_.Advance(later - world_.now() + absl::Seconds(1));
  EXPECT_EQ(world_.quiet_store.rows_told, 0u);
  ExpectAllSentOnTime(20);
}

TEST_F(ShardLoaderTest, LaneThatIsNoLongerQuietIsWatchedToTheHorizon) {
  Start();
  const absl::Time later = world_.now() + kHorizon * 3;
  AddRows(1, later);
  world_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(world_.quiet_store.rows_told, 1u);
  AddRows(20, later + absl::Seconds(1));
  EXPECT_EQ(world_.quiet_store.rows_told, 1u);
  AddRows(20, world_.now() + kHorizon / 2);
  EXPECT_EQ(world_.quiet_store.rows_told, 21u);
  world_.Advance(kHorizon * 4);
  ExpectAllSentOnTime(41);
}

TEST_F(ShardLoaderTest, RowsWrittenDuringAScanAreWatched) {
  world_.quiet_store.HoldAnswersOfScans();
  Start();
  AddRows(20, world_.now() + absl::Seconds(3));
  EXPECT_EQ(world_.quiet_store.rows_told, 20u);
  world_.Advance(absl::Seconds(1));
  world_.quiet_store.TellAll();
  world_.Advance(absl::Seconds(4));
  ExpectAllSentOnTime(20);
}

class SmallShardLoaderTest : public ShardLoaderTest {
 protected:
  static constexpr size_t kRowsMax = 10;
  static HandlerOptions Small() {
    HandlerOptions options;
    options.lane_rows_max = kRowsMax;
    return options;
  }
  SmallShardLoaderTest() : ShardLoaderTest(Small()) {}
};

TEST_F(SmallShardLoaderTest, FullLaneIsWatchedOnlyUpToItsLoadedRows) {
  Start();
  const absl::Time due = world_.now() + kHorizon / 2;
  AddRows(1, due);
  for (int i = 1; i < 300; ++i) {
    world_.Advance(absl::Milliseconds(1));
    AddRows(1, due + absl::Milliseconds(10) * i);
  }
  EXPECT_LE(world_.quiet_store.rows_told, 2 * kRowsMax);
  const uint64_t told = world_.quiet_store.rows_told;
  // The watch still reports a row that is due before the loaded rows.
  AddRows(1, due - absl::Seconds(1));
  EXPECT_EQ(world_.quiet_store.rows_told, told + 1);
  world_.Advance(kHorizon);
  ExpectAllSentOnTime(301);
}

}  // namespace shard_loader_test
}  // namespace escapement::handler
