// A RocksKvStore over a BatchLog: what is decided, seen and answered while batches are under way.

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/group_parts.h"
#include "common/kv/layout.h"
#include "common/kv/rocks/testing/held_store.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace rocks_batch_log_test {

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;
constexpr ColumnFamily kDone = ColumnFamily::kDone;
constexpr ColumnFamily kLeases = ColumnFamily::kLeases;

using RocksBatchLogTest = HeldStoreTest;

TEST_F(RocksBatchLogTest, SecondRowIsSentBeforeTheFirstIsDurable) {
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  clock_.Advance(absl::Milliseconds(10));
  auto b = CommitPut(2, "b");
  log_.AwaitRows(2);
  // With two rows under way, commits gather for the third.
  auto c = CommitPut(3, "c");
  AwaitWriter();
  auto d = CommitPut(4, "d");
  AwaitWriter();
  EXPECT_EQ(log_.rows(), 2u);
  log_.Acknowledge(0);
  EXPECT_EQ(a.Wait()->seq, 1u);
  log_.AwaitRows(3);
  log_.Acknowledge(1);
  log_.Acknowledge(2);
  EXPECT_EQ(b.Wait()->seq, 2u);
  EXPECT_EQ(c.Wait()->seq, 3u);
  EXPECT_EQ(d.Wait()->seq, 4u);
  EXPECT_EQ(log_.rows(), 3u);
  // Each row counts for the lease from the beginning of its own batch.
  EXPECT_EQ(log_.began(1) - log_.began(0), absl::Milliseconds(10));
}

TEST_F(RocksBatchLogTest, NothingShowsBeforeAllRowsUpToItAreDurable) {
  absl::Mutex mu;
  std::vector<CommitSeq> watched;
  auto watch = store_->OpenWatch({.cf = kEvents, .from_seq = kWatchFromNow},
                                 {.on_batch =
                                      [&](WatchBatch batch) {
                                        absl::MutexLock lock(&mu);
                                        watched.push_back(batch.seq);
                                      },
                                  .on_lagged = nullptr});
  AwaitWriter();
  const auto seqs = [&] {
    absl::MutexLock lock(&mu);
    return watched;
  };
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  auto b = CommitPut(2, "b");
  log_.AwaitRows(2);
  log_.Acknowledge(1);
  AwaitWriter();
  EXPECT_FALSE(a.here() || b.here());
  EXPECT_EQ(Keys(), "");
  EXPECT_EQ(Scan().seq, 0u);
  EXPECT_EQ(store_->info().seq, 0u);
  EXPECT_EQ(seqs(), std::vector<CommitSeq>());
  log_.Acknowledge(0);
  EXPECT_TRUE(b.Wait().ok());
  EXPECT_TRUE(a.here());
  EXPECT_EQ(Keys(), "a b ");
  EXPECT_EQ(seqs(), (std::vector<CommitSeq>{1, 2}));
}

TEST_F(RocksBatchLogTest, DurableBatchIsPublishedWithoutTheOneBehindIt) {
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  clock_.Advance(absl::Milliseconds(100));
  auto b = CommitPut(2, "b");
  log_.AwaitRows(2);
  log_.Acknowledge(0);
  const absl::Time decided = a.Wait()->store_time;
  AwaitWriter();
  EXPECT_FALSE(b.here());
  EXPECT_EQ(Keys(), "a ");
  const ScanResult scan = Scan();
  EXPECT_EQ(scan.seq, 1u);
  EXPECT_EQ(store_->info().seq, 1u);
  // A reader's time is a lower bound. It counts from the first batch, not from the second.
  EXPECT_GT(scan.store_time, decided);
  EXPECT_LT(scan.store_time, decided + absl::Milliseconds(100));
  log_.Acknowledge(1);
  EXPECT_EQ(b.Wait()->store_time, decided + absl::Milliseconds(100));
  EXPECT_EQ(Keys(), "a b ");
}

TEST_F(RocksBatchLogTest, BatchSeesTheEffectsOfTheOneUnderWay) {
  using Kind = Condition::Kind;
  const auto count = [](uint64_t number) {
    return Condition{
        .cf = kDone, .key = "d", .kind = Kind::kRangeCount, .value = "e", .number = number};
  };
  std::vector<Mutation> rows = {Put(kEvents, "changed", "old"), Put(kEvents, "deleted", "v"),
                                Put(kEvents, "x1", "v"), Put(kEvents, "x2", "v")};
  // So many that they are deleted as a range.
  for (int i = 0; i < 200; ++i) rows.push_back(Put(kDone, absl::StrCat("d", 1000 + i), "v"));
  ASSERT_TRUE(Commit(1, {{{}, rows}}).Wait().ok());

  log_.Hold();
  Mutation stamped = Put(kLeases, "lease", std::string(8, '\0'));
  stamped.kind = Mutation::Kind::kPutStamped;
  stamped.stamp_add = absl::Milliseconds(-1);
  Mutation later = stamped;
  later.key = "later";
  later.stamp_add = absl::Hours(1);
  const Mutation range{.cf = kDone, .kind = Mutation::Kind::kDeleteRange, .key = "d", .value = "e"};
  const Condition two_left{
      .cf = kEvents, .key = "x", .kind = Kind::kRangeCount, .value = "y", .number = 2};
  const Mutation few{.cf = kEvents, .kind = Mutation::Kind::kDeleteRange, .key = "x", .value = "y"};
  auto first = Commit(2, {{{},
                           {Put(kEvents, "new", "v"), Put(kEvents, "changed", "new"),
                            Delete(kEvents, "deleted"), stamped, later}},
                          {{count(200)}, {range}},
                          {{two_left}, {few}},
                          {{}, {Put(kDone, "d9999", "v")}}});
  log_.AwaitRows(1);
  const auto stamp_passed = [](std::string key) {
    return Condition{.cf = kLeases, .key = std::move(key), .kind = Kind::kStampPassed};
  };
  const Condition unchanged{
      .cf = kEvents, .key = "changed", .kind = Kind::kUnchangedSince, .number = 0, .since = 1};
  Condition none_left = two_left;
  none_left.number = 0;
  const std::vector<Group> questions = {{{Present(kEvents, "new")}, {}},
                                        {{ValueIs(kEvents, "changed", "new")}, {}},
                                        {{Absent(kEvents, "deleted")}, {}},
                                        {{Absent(kDone, "d1100")}, {}},
                                        {{count(1)}, {}},
                                        {{none_left}, {}},
                                        {{stamp_passed("lease")}, {}},
                                        {{stamp_passed("later")}, {}},
                                        {{unchanged}, {}},
                                        // Deletes what is not in the database yet.
                                        {{count(1)}, {range}},
                                        {{}, {Put(kEvents, "newer", "v")}}};
  auto second = Commit(3, questions);
  log_.AwaitRows(2);
  log_.Acknowledge(0);
  EXPECT_TRUE(first.Wait().ok());
  // The third has one of them under it in the database, and one in memory.
  auto third = Commit(4, {{{Present(kEvents, "new")}, {}},
                          {{Present(kEvents, "newer")}, {}},
                          {{count(0)}, {}},
                          {{}, {Put(kEvents, "newest", "v")}}});
  log_.AwaitRows(3);
  log_.Acknowledge(1);
  log_.Acknowledge(2);
  const CommitResult seen = second.Wait().value();
  for (size_t i = 0; i < questions.size(); ++i)
    EXPECT_EQ(seen.verdicts[i].applied, i != 7 && i != 8) << i;
  for (const Verdict& verdict : third.Wait()->verdicts) EXPECT_TRUE(verdict.applied);
  EXPECT_EQ(Keys(), "changed new newer newest ");
  for (const Verdict& verdict : first.Wait()->verdicts) EXPECT_TRUE(verdict.applied);
}

TEST_F(RocksBatchLogTest, RefusedBatchTakesTheOneBehindItAlong) {
  ASSERT_TRUE(CommitPut(1, "before").Wait().ok());
  log_.Hold();
  auto a = CommitPut(2, "a");
  log_.AwaitRows(1);
  auto b = CommitPut(3, "b");
  log_.AwaitRows(2);
  auto c = CommitPut(4, "c");
  log_.Refuse(0);
  log_.Acknowledge(1);  // not even then
  EXPECT_TRUE(absl::IsUnavailable(a.Wait().status()));
  EXPECT_TRUE(absl::IsUnavailable(b.Wait().status()));
  EXPECT_EQ(Keys(), "before ");
  Release(/*hand_over=*/true);
  EXPECT_TRUE(absl::IsUnavailable(c.Wait().status()));
  EXPECT_TRUE(InCopy("before"));
  EXPECT_FALSE(InCopy("a") || InCopy("b") || InCopy("c"));
}

TEST_F(RocksBatchLogTest, DurableBatchIsAnsweredThoughTheNextIsRefused) {
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  auto b = CommitPut(2, "b");
  log_.AwaitRows(2);
  log_.Refuse(1);
  log_.Acknowledge(0);
  EXPECT_TRUE(a.Wait().ok());
  EXPECT_TRUE(absl::IsUnavailable(b.Wait().status()));
  Release();
  EXPECT_TRUE(InCopy("a"));
  EXPECT_FALSE(InCopy("b"));
}

TEST_F(RocksBatchLogTest, AnswersWithoutARowWaitForTheBatchesTheySaw) {
  log_.Hold();
  auto first = CommitPut(1, "a");
  log_.AwaitRows(1);
  auto repeated = CommitPut(1, "a");
  AwaitWriter();
  log_.Acknowledge(0);
  EXPECT_EQ(repeated.Wait()->seq, 1u);
  EXPECT_TRUE(first.here());

  auto second = CommitPut(2, "b");
  log_.AwaitRows(2);
  auto verdict = Commit(3, {{{Absent(kEvents, "b")}, {Put(kEvents, "c", "v")}}});
  AwaitWriter();
  AwaitWriter();
  EXPECT_FALSE(verdict.here());
  EXPECT_EQ(log_.rows(), 2u);
  log_.Acknowledge(1);
  EXPECT_FALSE(verdict.Wait()->verdicts[0].applied);
  EXPECT_EQ(verdict.Wait()->seq, 2u);
  EXPECT_TRUE(second.here());
}

TEST_F(RocksBatchLogTest, ClockIsAnsweredAfterABatchThatBeganLater) {
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  Answer<ClockState> clock;
  store_->AskClock({}, clock.callback());
  log_.AwaitRows(2);
  log_.Acknowledge(0);
  EXPECT_TRUE(a.Wait().ok());
  AwaitWriter();
  EXPECT_FALSE(clock.here());
  log_.Acknowledge(1);
  EXPECT_TRUE(clock.Wait().ok());
}

// An operator confirms a step before the store has recorded that it saw one.
TEST_F(RocksBatchLogTest, ConfirmedStepIsAnsweredAfterItsRow) {
  log_.Hold();
  clock_.StepWall(absl::Hours(1));
  Answer<ClockState> clock;
  store_->AskClock({.confirm = true}, clock.callback());
  log_.AwaitRows(1);
  AwaitWriter();
  EXPECT_FALSE(clock.here());
  const absl::Time before = Scan().store_time;
  log_.Acknowledge(0);
  EXPECT_GE(clock.Wait()->store_time, before + absl::Minutes(59));
}

// A successor on another machine does not know how old the last record is, and a client does.
TEST_F(RocksBatchLogTest, StoreTimeGoesForwardToAClientsTimeByARow) {
  ASSERT_TRUE(CommitPut(1, "a").Wait().ok());
  Release();
  std::string stored;
  ASSERT_TRUE(database_->Get(ColumnFamily::kMeta, kClockKey, stored));
  ClockRecord record = DecodeClockRecord(stored).value();
  record.boot_id = "another machine";
  database_->batch().Put(ColumnFamily::kMeta, kClockKey, EncodeClockRecord(record));
  database_->WriteUnsynced();
  store_ =
      RocksKvStore::OpenReplica(options_, clock_, {std::move(database_), log_, absl::Seconds(3)})
          .value();
  Answer<SessionInfo> opened;
  store_->OpenSession(0, 0, opened.callback());
  ASSERT_TRUE(opened.Wait().ok());

  log_.Hold();
  const absl::Time now_low = record.store_time + absl::Seconds(30);
  CommitRequest request{.session = session_, .number = 2};
  request.groups = {{{Absent(kEvents, "a")}, {}}};  // writes nothing
  request.now_low = now_low;
  Answer<CommitResult> verdict;
  store_->Commit(std::move(request), verdict.callback());
  log_.AwaitRows(1);
  EXPECT_LT(Scan().store_time, now_low);
  log_.Acknowledge(0);
  EXPECT_EQ(verdict.Wait()->store_time, now_low);
  EXPECT_FALSE(verdict.Wait()->verdicts[0].applied);
}

TEST_F(RocksBatchLogTest, HandoverRowComesAfterEveryAnswer) {
  log_.Hold();
  auto a = CommitPut(1, "a");
  log_.AwaitRows(1);
  auto b = CommitPut(2, "b");
  log_.AwaitRows(2);
  bool answered = false;
  on_last_ = [&] { answered = a.here() && b.here(); };
  std::thread ends([this] { database_ = store_->Release(/*hand_over=*/true); });
  log_.Acknowledge(0);
  log_.Acknowledge(1);
  log_.AwaitRows(3);
  EXPECT_TRUE(answered);
  log_.Acknowledge(2);
  ends.join();
  EXPECT_TRUE(InCopy("b"));
}

TEST_F(RocksBatchLogTest, CallBeforeTheHandoverIsAnsweredBeforeIt) {
  Answer<ClockState> clock;
  absl::Notification asked, ending;
  // The writer answers the first call, and ends before it takes the second.
  store_->AskClock({}, [&](const absl::StatusOr<ClockState>&) {
    store_->AskClock({}, clock.callback());
    asked.Notify();
    ending.WaitForNotification();
  });
  asked.WaitForNotification();
  bool answered = false;
  on_last_ = [&] { answered = clock.here(); };
  std::thread ends([this] { database_ = store_->Release(/*hand_over=*/true); });
  // A store that ends refuses a commit at once; the others wait for the writer.
  bool refused = false;
  for (uint64_t number = 1; !refused; ++number) refused = CommitPut(number, "b").here();
  ending.Notify();
  ends.join();
  EXPECT_TRUE(answered);
  EXPECT_TRUE(clock.Wait().ok());
}

TEST_F(RocksBatchLogTest, FullDiskRefusesClockAnswersThatNeedARow) {
  free_bytes_ = 999;
  // The store asks for the free bytes again only after many bytes.
  const std::string large(2 << 20, 'x');
  uint64_t number = 0;
  while (Commit(++number, {{{}, {Put(kEvents, "large", large)}}}).Wait().ok()) {
    ASSERT_LT(number, 100u);
  }
  clock_.StepWall(absl::Hours(1));
  Answer<ClockState> clock;
  store_->AskClock({.confirm = true}, clock.callback());
  EXPECT_TRUE(absl::IsResourceExhausted(clock.Wait().status())) << clock.Wait().status();
}

// Others may fill the disk while the store writes little, or nothing.
TEST_F(RocksBatchLogTest, DiskThatOthersFillIsSeenWithinSeconds) {
  ASSERT_TRUE(CommitPut(1, "a").Wait().ok());
  free_bytes_ = 999;
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(absl::IsResourceExhausted(CommitPut(2, "b").Wait().status()));
  free_bytes_ = 1'000'000;
  EXPECT_TRUE(CommitPut(3, "c").Wait().ok());
  free_bytes_ = 999;
  clock_.Advance(absl::Seconds(2));
  AwaitWriter();
  AwaitWriter();  // the writer has read the free space since it saw the first one
  EXPECT_FALSE(store_->info().accepting);
}

TEST_F(RocksBatchLogTest, FullDiskDoesNotHurryAnswers) {
  const std::string large(2 << 20, 'x');
  std::vector<Mutation> much;
  for (int i = 0; i < 9; ++i) much.push_back(Put(kEvents, absl::StrCat("k", i), large));
  log_.Hold();
  auto first = Commit(1, {{{}, much}});
  log_.AwaitRows(1);
  free_bytes_ = 999;
  auto repeated = Commit(1, {{{}, much}});
  log_.Acknowledge(0);
  EXPECT_EQ(repeated.Wait()->seq, 1u);
  EXPECT_TRUE(first.here());
  EXPECT_TRUE(absl::IsResourceExhausted(CommitPut(2, "b").Wait().status()));
  EXPECT_EQ(log_.rows(), 1u);
}

}  // namespace rocks_batch_log_test
}  // namespace escapement::kv
