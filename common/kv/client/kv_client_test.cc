#include "common/kv/client/kv_client.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/layout.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_runtime.h"
#include "common/sim/sim_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace kv_client_test {

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;

// Randomly loses requests and answers of commits, as a network does.
class LossyKvStore final : public ForwardingKvStore {
 public:
  LossyKvStore(KvStore& base, Runtime& runtime) : ForwardingKvStore(base), runtime_(runtime) {}

  uint64_t loss_percent = 0;
  int refusals = 0;               // the next commits that find no room
  std::vector<uint64_t> numbers;  // numbers of the commits sent

  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override {
    numbers.push_back(request->number);
    if (refusals > 0) {
      --refusals;
      return done(absl::ResourceExhaustedError("no room"));
    }
    if (Lost()) return done(absl::UnavailableError("the request was lost"));
    const bool answer_lost = Lost();
    inner_.Commit(std::move(request), [done, answer_lost](absl::StatusOr<CommitResult> result) {
      if (answer_lost) result = absl::UnavailableError("the answer was lost");
      done(std::move(result));
    });
  }
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override {
    if (Lost()) return done(absl::UnavailableError("lost"));
    inner_.MultiGet(std::move(keys), std::move(done));
  }

 private:
  bool Lost() { return runtime_.random().Below(100) < loss_percent; }
  Runtime& runtime_;
};

class KvClientTest : public testing::Test {
 protected:
  KvClientTest()
      : mem_(runtime_, {}), lossy_(mem_, runtime_), executor_(runtime_.NewExecutor("test")) {
    NewClient();
  }

  void NewClient() {
    KvClient::Options options;
    options.name = "test";
    options.on_session_lost = [this] { ++sessions_lost_; };
    options.session_executor = executor_;
    client_ = std::make_unique<KvClient>(lossy_, runtime_, std::move(options));
  }

  static Commit PutIfAbsent(const std::string& key) {
    Commit commit;
    commit.groups.resize(1);
    commit.groups[0].conditions.push_back({kEvents, key, Condition::Kind::kAbsent, "", 0, 0});
    commit.groups[0].mutations.push_back(
        {kEvents, Mutation::Kind::kPut, key, "v", 0, absl::ZeroDuration()});
    return commit;
  }

  // Appends to `told`: "+" if applied, "-" if not, "!" for an error.
  void PutAsync(const std::string& key, std::string* told) {
    client_->CommitAsync(PutIfAbsent(key), executor_, [told](absl::StatusOr<CommitResult> result) {
      *told += !result.ok() ? "!" : result->verdicts.at(0).applied ? "+" : "-";
    });
  }

  sim::SimRuntime runtime_{7};
  MemKvStore mem_;
  LossyKvStore lossy_;
  std::shared_ptr<Executor> executor_;
  int sessions_lost_ = 0;
  std::unique_ptr<KvClient> client_;
};

TEST_F(KvClientTest, CommitAppliesOnceIfAnswersAreLost) {
  lossy_.loss_percent = 40;
  std::string told;
  for (int i = 0; i < 500; ++i) PutAsync(absl::StrCat("k", i), &told);
  ASSERT_TRUE(runtime_.RunUntil([&] { return told.size() == 500; }, absl::Hours(1)));
  EXPECT_EQ(told, std::string(500, '+'));
  EXPECT_EQ(mem_.disk()->families[static_cast<size_t>(kEvents)].size(), 500);
  EXPECT_GT(lossy_.numbers.size(), 600);
  EXPECT_EQ(sessions_lost_, 0);
}

TEST_F(KvClientTest, CommitWaitsForRoomIfItShall) {
  runtime_.AdvanceBy(absl::Seconds(1));
  lossy_.refusals = 3;
  std::string told;
  PutAsync("a", &told);
  Commit patient = PutIfAbsent("b");
  patient.again_without_room = absl::Seconds(1);
  client_->CommitAsync(std::move(patient), executor_, [&told](absl::StatusOr<CommitResult> result) {
    told += result.ok() && result->verdicts.at(0).applied ? "b" : "?";
  });
  runtime_.AdvanceBy(absl::Milliseconds(1900));
  EXPECT_EQ(told, "!");
  runtime_.AdvanceBy(absl::Milliseconds(200));
  EXPECT_EQ(told, "!b");
  EXPECT_EQ(lossy_.numbers.size(), 4u);
}

TEST_F(KvClientTest, NoNewCommitIsSentWhileAResultIsUnknown) {
  std::string told;
  runtime_.AdvanceBy(absl::Seconds(1));
  lossy_.loss_percent = 100;
  PutAsync("a", &told);
  PutAsync("b", &told);
  PutAsync("c", &told);
  EXPECT_THAT(lossy_.numbers, testing::ElementsAre(1));
  lossy_.loss_percent = 0;
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(told, "+++");
  EXPECT_THAT(lossy_.numbers, testing::ElementsAre(1, 1, 2, 3));
}

TEST_F(KvClientTest, CommitsSucceedAcrossACrashOfTheStore) {
  for (auto unsynced : {MemKvStore::Unsynced::kLost, MemKvStore::Unsynced::kKept}) {
    std::string told;
    runtime_.AdvanceBy(absl::Seconds(1));
    for (int i = 0; i < 100; ++i) PutAsync(absl::StrCat(static_cast<int>(unsynced), "/", i), &told);
    runtime_.AdvanceBy(absl::Microseconds(100));  // within the first sync
    mem_.Crash(unsynced);
    runtime_.AdvanceBy(absl::Seconds(3));
    EXPECT_EQ(told, "");
    mem_.Restart();
    runtime_.AdvanceBy(absl::Seconds(3));
    EXPECT_EQ(told, std::string(100, '+'));
  }
}

TEST_F(KvClientTest, LostSessionCallsBackAndOpensANewSession) {
  std::string told;
  PutAsync("a", &told);
  runtime_.AdvanceBy(absl::Seconds(1));
  mem_.Crash(MemKvStore::Unsynced::kLost);
  runtime_.RunUntilIdle();
  auto& meta = mem_.disk()->families[static_cast<size_t>(ColumnFamily::kMeta)];
  meta.erase(meta.lower_bound(std::string("\0s", 2)), meta.lower_bound(std::string("\0t", 2)));
  mem_.Restart();
  PutAsync("b", &told);
  runtime_.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(told, "+!");
  EXPECT_EQ(sessions_lost_, 1);
  PutAsync("b", &told);
  runtime_.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(told, "+!+");
}

TEST_F(KvClientTest, ClientRefusesAStoreThatLostCommits) {
  std::string told;
  PutAsync("a", &told);
  runtime_.AdvanceBy(absl::Seconds(1));
  const MemDisk copy = *mem_.disk();
  PutAsync("b", &told);
  runtime_.AdvanceBy(absl::Seconds(1));
  mem_.Crash(MemKvStore::Unsynced::kLost);
  runtime_.RunUntilIdle();
  *mem_.disk() = copy;
  mem_.Restart();
  PutAsync("a", &told);  // not applied; its sequence is behind what was seen
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(told, "++!");
  EXPECT_FALSE(client_->Connected());
}

TEST_F(KvClientTest, CommitsBeyondTheWindowWaitInOrderUpToABound) {
  KvClient::Options options;
  options.waiting_commits_max = 100;
  client_ = std::make_unique<KvClient>(lossy_, runtime_, std::move(options));
  std::string told;
  // no session yet: all of them wait
  for (int i = 0; i < 101; ++i) PutAsync(absl::StrCat("k", i), &told);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(told, "!" + std::string(100, '+'));
  std::vector<uint64_t> sorted = lossy_.numbers;
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST_F(KvClientTest, ReadRepeatsUntilItIsAnswered) {
  lossy_.loss_percent = 70;
  int read = 0;
  for (int i = 0; i < 50; ++i) {
    client_->MultiGet({{kEvents, "k"}}, executor_,
                      [&](absl::StatusOr<GetResult> result) { read += result.ok(); });
  }
  EXPECT_TRUE(runtime_.RunUntil([&] { return read == 50; }, absl::Hours(1)));
}

TEST_F(KvClientTest, NowLowIsInWholeMicroseconds) {
  std::string told;
  PutAsync("a", &told);
  for (int i = 0; i < 100; ++i) {
    runtime_.AdvanceBy(absl::Nanoseconds(1'234'567));
    if (client_->NowLow() == absl::InfinitePast()) continue;
    EXPECT_EQ(client_->NowLow(), absl::FromUnixMicros(absl::ToUnixMicros(client_->NowLow())));
  }
  EXPECT_NE(client_->NowLow(), absl::InfinitePast());
}

TEST_F(KvClientTest, NowLowStaysBelowStoreTimeAndCloseToIt) {
  EXPECT_EQ(client_->NowLow(), absl::InfinitePast());
  std::string told;
  PutAsync("a", &told);
  runtime_.AdvanceBy(absl::Minutes(10));
  EXPECT_LE(client_->NowLow(), runtime_.clock().WallNow());
  EXPECT_GT(client_->NowLow(), runtime_.clock().WallNow() - absl::Seconds(1));
}

// The store comes back on another machine, where nothing tells how long it was away.
TEST_F(KvClientTest, StoreThatMovedDecidesNoCommitBeforeItsClientsTime) {
  std::string told;
  PutAsync("a", &told);
  runtime_.AdvanceBy(absl::Seconds(1));
  ASSERT_EQ(told, "+");
  mem_.Crash(MemKvStore::Unsynced::kLost);
  auto& meta = mem_.disk()->families[static_cast<size_t>(ColumnFamily::kMeta)];
  std::string& stored = meta.at(std::string(kClockKey));
  ClockRecord record = DecodeClockRecord(stored).value();
  record.boot_id = "another machine";
  stored = EncodeClockRecord(record);
  std::optional<CommitResult> result;
  client_->CommitAsync(PutIfAbsent("b"), executor_, [&](absl::StatusOr<CommitResult> answer) {
    ASSERT_TRUE(answer.ok());
    result = *std::move(answer);
  });
  runtime_.AdvanceBy(absl::Seconds(30));
  const absl::Time low = client_->NowLow();
  EXPECT_GT(low, record.store_time + absl::Seconds(29));
  mem_.Restart();
  runtime_.AdvanceBy(absl::Seconds(3));
  ASSERT_TRUE(result.has_value());
  EXPECT_GE(result->store_time, low);
}

TEST_F(KvClientTest, AWatchLeavesOutTheOwnSessionAndEndsWithItsHandle) {
  std::vector<std::string> seen;
  WatchObserver observer;
  observer.on_batch = [&](WatchBatch batch) {
    for (const auto& mutation : batch.mutations) seen.push_back(mutation.key);
  };
  auto watch = client_->OpenWatch({kEvents, "", "", kWatchFromNow, 0}, /*excluding_own=*/true,
                                  executor_, observer);
  auto other = std::make_unique<KvClient>(lossy_, runtime_, KvClient::Options());
  runtime_.AdvanceBy(absl::Seconds(1));
  std::string told;
  PutAsync("own", &told);
  other->CommitAsync(PutIfAbsent("other"), executor_, [](auto) {});
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(seen, testing::ElementsAre("other"));
  watch.reset();
  other->CommitAsync(PutIfAbsent("later"), executor_, [](auto) {});
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(seen, testing::ElementsAre("other"));
}

// Records the order of calls. Can run code before it opens a watch.
class OrderNotingKvStore final : public ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override {
    calls.push_back("commit");
    inner_.Commit(std::move(request), std::move(done));
  }
  void Scan(ScanRequest request, Callback<ScanResult> done) override {
    calls.push_back("scan");
    inner_.Scan(std::move(request), std::move(done));
  }
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override {
    before_watch();
    calls.push_back("watch");
    return inner_.OpenWatch(std::move(request), std::move(observer));
  }
  std::function<void()> before_watch;
  std::vector<std::string> calls;
};

// Otherwise a commit between the two would be in neither the scan nor the watch.
TEST_F(KvClientTest, NothingIsSentBeforeWaitingWatchesAreOpen) {
  OrderNotingKvStore store(mem_);
  KvClient::Options options;
  options.name = "noting";
  KvClient client(store, runtime_, std::move(options));
  int answers = 0;
  // Another thread may do this when it finds the session there.
  store.before_watch = [&] {
    client.Scan({.cf = kEvents}, executor_, [&](const auto& result) { answers += result.ok(); });
    client.CommitAsync(PutIfAbsent("k"), executor_,
                       [&](const auto& result) { answers += result.ok(); });
  };
  const auto watch = client.OpenWatch({.cf = kEvents, .from_seq = kWatchFromNow},
                                      /*excluding_own=*/false, executor_, {});
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(store.calls, testing::ElementsAre("watch", "scan", "commit"));
  EXPECT_EQ(answers, 2);
}

TEST_F(KvClientTest, DestructorDropsUnansweredCallbacks) {
  std::string told;
  PutAsync("a", &told);
  client_.reset();
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(told, "");
}

// An idle client learns the store's time only from its own clock reports.
class SlowPhaseTest : public testing::Test {
 protected:
  ClockState Ask() {
    ClockState state;
    store_.AskClock({}, [&](absl::StatusOr<ClockState> answer) { state = *answer; });
    world_.AdvanceBy(absl::ZeroDuration());
    return state;
  }

  sim::SimWorld world_{1};
  sim::SimProcess store_process_{world_, "store"};
  sim::SimProcess client_process_{world_, "client", {.boot_id = "client's"}};
  MemKvStore store_{store_process_, {}};
  KvClient client_{store_, client_process_, KvClient::Options()};
};

TEST_F(SlowPhaseTest, NowLowStaysBelowAStoreTimeOfHalfPace) {
  world_.AdvanceBy(absl::Seconds(10));
  store_process_.StepWallClock(-absl::Seconds(10));
  bool slow = false;
  for (int i = 0; i < 400; ++i) {
    world_.AdvanceBy(absl::Milliseconds(100));
    const ClockState state = Ask();
    slow |= state.store_time > state.pace.slow_from;
    EXPECT_LE(client_.NowLow(), state.store_time);
    EXPECT_GE(client_.NowLow(), state.store_time - absl::Milliseconds(600));
  }
  EXPECT_TRUE(slow);
  const ClockState end = Ask();
  EXPECT_EQ(end.pace.slow_from, absl::InfiniteFuture());
  EXPECT_LT(absl::AbsDuration(end.disagreement), absl::Milliseconds(1));
  EXPECT_EQ(end.hosts, 1u);
  EXPECT_EQ(end.hosts_disagree, 1u) << "the client's machine has the time of before";
}

// Found by the simulation: a handler stopped for longer than its lease and missed a whole slow
// phase. When it came back it sent early.
TEST_F(SlowPhaseTest, NowLowStaysBelowStoreTimeAfterASlowPhaseThatWasMissed) {
  world_.AdvanceBy(absl::Seconds(10));
  store_process_.StepWallClock(-absl::Minutes(1));
  client_process_.Pause(absl::Seconds(40));
  for (int i = 0; i < 390; ++i) {
    world_.AdvanceBy(absl::Milliseconds(100));
    Ask();
  }
  EXPECT_NE(Ask().pace.slow_from, absl::InfiniteFuture());
  store_process_.StepWallClock(-absl::Minutes(1));  // another step: the slow phase ends
  EXPECT_EQ(Ask().pace.slow_from, absl::InfiniteFuture());
  EXPECT_GT(Ask().pace.slowed, absl::Seconds(10));
  world_.AdvanceBy(absl::Milliseconds(2'500));
  EXPECT_LE(client_.NowLow(), Ask().store_time);
  EXPECT_GE(client_.NowLow(), Ask().store_time - absl::Milliseconds(600));
}

}  // namespace kv_client_test
}  // namespace escapement::kv
