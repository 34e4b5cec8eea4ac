// The token manager and faults of its store: late or missing reports of watches, rows that are not
// in memory, no room, an outage.

#include <algorithm>
#include <set>

#include "common/base/hash.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_store_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

absl::Time Utc(int year, int month, int day, int hour) {
  return absl::FromCivil(absl::CivilSecond(year, month, day, hour, 0, 0), absl::UTCTimeZone());
}

TEST(TokenManagerStoreTest, AStateThatChangesUnseenIsNotGrantedAgainst) {
  // The row was judged before the schedule was paused, and committed after.
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  for (int i = 0; i < 50; ++i) {
    const Uid uid = world.AddSchedule("s" + std::to_string(i), schedule);
    world.AddRow(uid, schedule, {.due = world.now() + absl::Seconds(5), .count = 2});
  }
  world.Start("a");
  world.Advance(absl::Seconds(2));
  for (int i = 0; i < 50; ++i) {
    world.SetState(StableHash128("s" + std::to_string(i)), storage::v1::SCHEDULE_STATE_KIND_PAUSED);
    world.Advance(absl::Milliseconds(100));
  }
  world.Advance(absl::Seconds(10));
  uint64_t parked = world.Count(ColumnFamily::kParked);
  EXPECT_LE(world.Held(policy), 1);
  EXPECT_GE(parked, 1);
}

TEST(TokenManagerStoreTest, OnlyFirstOfManyRowsAreInMemoryAndAllAreGranted) {
  TokenManagerOptions options;
  options.group_rows_max = 8;
  TokenWorld world(options);
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(5));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now();
  for (int i = 0; i < 100; ++i)
    world.AddRow(uid, schedule, {.due = due, .count = 2, .occurrence = "o" + std::to_string(i)});
  const TokenManagerService& service = world.Start("a");
  size_t sent = 0;
  uint64_t most = 0;
  Random& random = world.runtime.random();
  int added = 100;
  for (int i = 0; i < 3000 && sent < 300; ++i) {
    world.Advance(absl::Milliseconds(10));
    sent += world.Handle().size();
    most = std::max<uint64_t>(most, service.metrics().rows_in_memory.Value());
    // Other rows arrive, before and behind those in memory.
    if (added < 150 && random.Below(2) == 0)
      world.AddRow(uid, schedule,
                   {.due = due - absl::Milliseconds(random.Below(2)),
                    .count = 2,
                    .occurrence = "o" + std::to_string(added++)});
  }
  EXPECT_EQ(sent, 300);
  EXPECT_LE(most, 17);
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 300);
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(service.metrics().rows_in_memory.Value(), 0);
  EXPECT_EQ(service.metrics().policies_active.Value(), 0);
}

// While a shard is loaded, the watch may report rows behind the part of a group that is kept in
// memory.
TEST(TokenManagerStoreTest, ARowThatIsToldOfWhileTheShardIsLoadedIsGrantedOnce) {
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    TokenManagerOptions options;
    options.group_rows_max = 16;
    TokenWorld world(options);
    world.poor_store.scan_delay = absl::Milliseconds(50);
    const Uid policy = world.PutPolicy("p", TokenWorld::Limits(0));
    storage::v1::WindowRecord window;
    window.set_duration_micros(60'000'000);
    window.set_on_close(storage::v1::ON_CLOSE_KIND_CARRY_OVER);
    const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false, .window = window};
    const Uid uid = world.AddSchedule("s", schedule);
    for (int row = 0; row < 17; ++row)
      world.AddRow(uid, schedule,
                   {.due = world.now() - absl::Seconds(10),
                    .occurrence = "carried" + std::to_string(row),
                    .window_begin = Utc(2026, 3, 1, 3)});
    world.Start("a");
    world.Advance(absl::Milliseconds(20 * i));
    world.AddRow(uid, schedule, {.due = world.now(), .occurrence = "told"});
    size_t handled = 0;
    for (int step = 0; step < 100; ++step) {
      world.Advance(absl::Milliseconds(20));
      handled += world.Handle().size();
    }
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(world.Counts(policy).granted(), 1);
  }
}

TEST(TokenManagerStoreTest, RowGrantedBeforeTheWatchReportsItIsNotGrantedAgain) {
  TokenManagerOptions options;
  options.group_rows_max = 2;
  TokenWorld world(options);
  world.poor_store.delay = absl::Seconds(1);
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(0));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now() + absl::Seconds(10);
  for (int i = 0; i < 4; ++i)
    world.AddRow(uid, schedule, {.due = due, .occurrence = "o" + std::to_string(i)});
  world.Start("a");
  world.Advance(due - absl::Milliseconds(500) - world.now());
  world.AddRow(uid, schedule, {.due = due, .occurrence = "o4"});
  world.Advance(due + absl::Milliseconds(300) - world.now());
  EXPECT_EQ(world.Handle().size(), 5);  // before the watch tells of the last one
  world.Advance(kSettle);
  EXPECT_TRUE(world.Handle().empty());
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 5);
  EXPECT_EQ(world.Counts(policy).granted(), 5);
}

// A row moves to a policy of another shard, of the same token manager; the answer to that commit is
// under way for a time.
class MovedRow {
 public:
  MovedRow() {
    TokenWorld::Schedule moved = schedule_;
    moved.version = 2;
    const Uid from = world.PutPolicy("p", TokenWorld::Limits(1));
    to = from;
    for (int i = 0; TokenWorld::ShardOf(to) == TokenWorld::ShardOf(from); ++i) {
      moved.policy_id = "other" + std::to_string(i);
      to = world.PutPolicy(moved.policy_id, TokenWorld::Limits(1));
    }
    const Uid uid = world.AddSchedule("s", schedule_);
    world.AddRow(uid, schedule_,
                 {.due = absl::FromUnixSeconds(3 * 3600), .occurrence = "19700101T030000-0-UTC"});
    world.AddDefinition(uid, moved);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
    world.poor_store.answered_late = [this](const kv::CommitRequest& request) {
      return std::any_of(request.groups.begin(), request.groups.end(), [this](const auto& group) {
        return std::any_of(group.mutations.begin(), group.mutations.end(), [this](const auto& put) {
          if (put.cf != ColumnFamily::kWaiting || put.kind != kv::Mutation::Kind::kPut)
            return false;
          const auto key = DecodeWaitingKey(put.key);
          return key.has_value() && key->policy == to;
        });
      });
    };
    world.Start("a");
    world.Advance(kSettle);
    // The shard of `to` is loaded again and finds the row; the shard of `from` still waits.
    world.poor_store.Lag();
  }

  TokenWorld world;
  Uid to;

 private:
  TokenWorld::Schedule schedule_ = {.policy_id = "p", .on_release = false};
};

TEST(TokenManagerStoreTest, MovedRowIsNotGrantedAgainWhenTheMoveIsAnsweredLate) {
  MovedRow row;
  EXPECT_TRUE(row.world.Handle().empty());
  row.world.Advance(kSettle);
  EXPECT_EQ(row.world.Handle().size(), 1);
  row.world.Advance(kSettle);
  EXPECT_EQ(row.world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  row.world.poor_store.LetAnswersGo();
  row.world.Advance(kSettle);
  EXPECT_TRUE(row.world.Handle().empty());
  EXPECT_EQ(row.world.Counts(row.to).granted(), 1);
}

TEST(TokenManagerStoreTest, AMovedRowIsGrantedOnceWheneverTheMoversAnswerComes) {
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    MovedRow row;
    row.world.poor_store.get_delay = absl::Seconds(1);
    row.world.poor_store.scan_delay = absl::Milliseconds(1);
    row.world.Advance(absl::Microseconds(100 * i));
    row.world.poor_store.LetAnswersGo();
    size_t handled = 0;
    for (int step = 0; step < 50; ++step) {
      row.world.Advance(absl::Milliseconds(100));
      handled += row.world.Handle().size();
    }
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(row.world.Counts(row.to).granted(), 1);
  }
}

TEST(TokenManagerStoreTest, AWatchThatMissesSomethingCostsNothingButALook) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(4));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 60});
  world.Start("a");
  world.Advance(kSettle);
  std::set<uint64_t> indices;
  for (int i = 0; i < 400 && indices.size() < 60; ++i) {
    for (const SentEvent& event : world.Handle()) {
      EXPECT_TRUE(indices.insert(event.index).second);
      world.poor_store.Lag();
      world.Report(TokenWorld::ShardOf(policy),
                   {TokenWorld::EntryOf(event, GrantReportRecord::COMPLETED)});
    }
    world.Advance(absl::Milliseconds(20));
    EXPECT_LE(world.Held(policy), 4);
  }
  EXPECT_EQ(indices.size(), 60);
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 60);
  EXPECT_EQ(world.Part(uid, "o1", policy).granted(), 60);
}

TEST(TokenManagerStoreTest, WithoutRoomInTheStoreItTriesAgain) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(kSettle);
  world.poor_store.full = true;
  bool effect = false;
  world.manager("a").Apply(
      TokenWorld::ShardOf(policy), {TokenWorld::EntryOf(sent[0], GrantReportRecord::COMPLETED)},
      [&](absl::StatusOr<std::vector<bool>> answer) { effect = answer.ok() && (*answer)[0]; });
  world.Advance(absl::Seconds(2));
  EXPECT_FALSE(effect);
  EXPECT_EQ(world.Held(policy), 1);
  EXPECT_TRUE(world.Handle().empty());
  world.poor_store.full = false;
  world.Advance(absl::Seconds(1));
  EXPECT_TRUE(effect);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  EXPECT_EQ(world.Handle().size(), 1);
}

// The policy goes on between what a read has seen and the watch's beginning.
TEST(TokenManagerStoreTest, AReadOfAPolicyThatWasAskedBeforeTheWatchIsNotBelieved) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  storage::v1::PolicyRecord paused = TokenWorld::Limits(1);
  paused.set_paused(true);
  world.PutPolicy("p", paused);
  const Uid uid = world.AddSchedule("s", schedule);
  world.Start("a");
  world.Advance(kSettle);
  world.poor_store.policies_delay = absl::Seconds(1);
  world.AddRow(uid, schedule, {.due = world.now()});
  world.Advance(absl::Milliseconds(500));
  world.poor_store.policies_delay = absl::ZeroDuration();
  world.poor_store.Lag(ColumnFamily::kPolicies);
  world.Advance(absl::Milliseconds(10));
  world.PutPolicy("p", TokenWorld::Limits(1));
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
}

TEST(TokenManagerStoreTest, AtQuietTimesNothingRuns) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 10});
  const TokenManagerService& service = world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
  world.Advance(kSettle);
  const uint64_t commits = service.metrics().commits.Value();
  world.Advance(absl::Seconds(50));
  EXPECT_EQ(service.metrics().commits.Value(), commits);
}

TEST(TokenManagerStoreTest, AStoreThatIsGoneForAWhileChangesNothing) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  constexpr uint64_t kLimit = 6;
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(kLimit));
  uint64_t most = 0;
  world.on_commit = [&](const kv::CommitRecord&) { most = std::max(most, world.Held(policy)); };
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 60});
  world.Start("a");
  world.Start("b");
  std::set<uint64_t> done;
  std::vector<SentEvent> out;
  Random& random = world.runtime.random();
  for (int i = 0; i < 4000 && done.size() < 60; ++i) {
    world.Advance(absl::Milliseconds(50));
    if (i % 300 == 299) {
      world.store.Crash(random.Below(2) == 0 ? kv::MemKvStore::Unsynced::kLost
                                             : kv::MemKvStore::Unsynced::kKept);
      world.Advance(absl::Seconds(1));
      world.store.Restart();
      world.store.ConfirmClock();
      world.Advance(absl::Seconds(1));
    }
    for (SentEvent& event : world.Handle()) out.push_back(std::move(event));
    std::vector<SentEvent> left;
    for (SentEvent& event : out) {
      if (random.Below(3) == 0) {
        left.push_back(std::move(event));
        continue;
      }
      world.Report(TokenWorld::ShardOf(policy),
                   {TokenWorld::EntryOf(event, GrantReportRecord::COMPLETED)});
      done.insert(event.index);
    }
    out = std::move(left);
  }
  EXPECT_EQ(done.size(), 60);
  EXPECT_LE(most, kLimit);
  world.Advance(absl::Seconds(20));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 60);
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(world.Part(uid, "o1", policy).succeeded(), 60);
  EXPECT_EQ(world.Part(uid, "o1", policy).granted(), 60);
}

}  // namespace token_manager_store_test
}  // namespace escapement::token_manager
