#include "common/records/record_cache.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace record_cache_test {

using kv::ColumnFamily;

// Records how many definitions each read asks for.
class CountingKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  std::vector<size_t> definitions;

  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    definitions.push_back(
        static_cast<size_t>(std::count_if(keys.begin(), keys.end(), [](const kv::Key& key) {
          return key.cf == ColumnFamily::kDefinitions;
        })));
    inner_.MultiGet(std::move(keys), std::move(done));
  }
};

// Can answer reads late, with the data of when they were asked, and can end its watches.
class SlowKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  bool hold = false;  // holds the answers to reads that begin now

  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    if (hold) {
      done = [this, done = std::move(done)](absl::StatusOr<kv::GetResult> result) {
        held_.push_back([done, result = std::move(result)] { done(result); });
      };
    }
    inner_.MultiGet(std::move(keys), std::move(done));
  }
  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override {
    auto ended = std::make_shared<bool>(false);
    lag_ = [ended, on_lagged = observer.on_lagged] {
      *ended = true;
      on_lagged(absl::UnavailableError("lagged"));
    };
    observer.on_batch = [ended, on_batch = observer.on_batch](kv::WatchBatch batch) {
      if (!*ended) on_batch(std::move(batch));
    };
    return inner_.OpenWatch(std::move(request), std::move(observer));
  }
  void Lag() { lag_(); }
  void LetAnswersGo() {
    hold = false;
    for (const auto& answer : std::exchange(held_, {})) answer();
  }

 private:
  std::vector<std::function<void()>> held_;
  std::function<void()> lag_;
};

// A cache that is asked for one state after each fetch.
struct OneState {
  OneState() {
    Put(1);
    executor->Post([this] { cache.Start(); });
    runtime.AdvanceBy(absl::Seconds(1));
    store.hold = true;
    executor->Post([this] { Ask(); });
    runtime.AdvanceBy(absl::Milliseconds(10));
    store.hold = false;
  }
  void Ask() {
    cache.State(Uid());
    cache.Fetch();
  }
  void Put(int64_t cancelled_before) {
    storage::v1::StateRecord record;
    record.set_cancelled_before_micros(cancelled_before);
    kv::Commit commit;
    commit.groups.emplace_back().mutations.push_back(
        {.cf = ColumnFamily::kStates, .key = StateKey(Uid()), .value = record.SerializeAsString()});
    client.CommitAsync(std::move(commit), executor, [](absl::StatusOr<kv::CommitResult>) {});
    runtime.AdvanceBy(absl::Milliseconds(10));
  }
  int64_t known() const {
    const auto state = cache.StateIfKnown(Uid());
    return state == nullptr ? 0 : state->record->cancelled_before_micros();
  }
  static kv::KvClient::Options ClientOptions() {
    kv::KvClient::Options options;
    options.name = "test";
    return options;
  }

  sim::SimRuntime runtime{5};
  kv::MemKvStore mem{runtime, {}};
  SlowKvStore store{mem};
  const std::shared_ptr<Executor> executor = runtime.NewExecutor("handler");
  kv::KvClient client{store, runtime, ClientOptions()};
  std::vector<int64_t> fetched;  // known() after each fetch
  RecordCache cache{client, executor, [this] {
                      fetched.push_back(known());
                      Ask();
                    }};
};

TEST(RecordCacheTest, ReadBegunBeforeForgetStateIsIgnored) {
  OneState one;
  one.store.Lag();  // otherwise the watch reports the change
  one.Put(2);
  one.executor->Post([&] {
    one.cache.ForgetState(Uid());
    one.Ask();
  });
  one.store.LetAnswersGo();
  one.runtime.AdvanceBy(absl::Milliseconds(20));
  EXPECT_EQ(one.fetched, (std::vector<int64_t>{0, 2}));
}

// The change comes after the snapshot of the read and before the new watch begins.
TEST(RecordCacheTest, ReadBegunBeforeTheWatchIsIgnored) {
  OneState one;
  one.store.Lag();
  one.Put(2);
  one.runtime.AdvanceBy(absl::Seconds(1));
  one.store.LetAnswersGo();
  one.runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(one.known(), 2);
  one.Put(3);
  one.runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(one.known(), 3);
}

// A definition has at most about 400 KB, and an answer of the store at most 64 MB.
TEST(RecordCacheTest, ReadsAreBoundedByTheSizeOfAnAnswer) {
  constexpr uint64_t kDefinitions = 2'345;
  sim::SimRuntime runtime{5};
  kv::MemKvStore mem(runtime, {});
  CountingKvStore store(mem);
  const std::shared_ptr<Executor> executor = runtime.NewExecutor("handler");
  kv::KvClient::Options options;
  options.name = "test";
  kv::KvClient client(store, runtime, std::move(options));
  kv::Commit commit;
  commit.groups.resize(1);
  for (uint64_t version = 1; version <= kDefinitions; ++version) {
    storage::v1::DefinitionRecord record;
    record.set_version(version);
    commit.groups[0].mutations.push_back({.cf = ColumnFamily::kDefinitions,
                                          .key = DefinitionKey(Uid(), version),
                                          .value = record.SerializeAsString()});
  }
  client.CommitAsync(std::move(commit), executor, [](absl::StatusOr<kv::CommitResult>) {});
  int fetches = 0;
  RecordCache cache(client, executor, [&] { ++fetches; });
  executor->Post([&] { cache.Start(); });
  runtime.AdvanceBy(absl::Seconds(1));
  store.definitions.clear();
  executor->Post([&] {
    for (uint64_t version = 1; version <= kDefinitions; ++version) {
      EXPECT_EQ(cache.Definition(Uid(), version), nullptr);
    }
    cache.Fetch();
  });
  runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_LE(*std::max_element(store.definitions.begin(), store.definitions.end()),
            (size_t{64} << 20) / 400'000);
  EXPECT_LE(fetches, 3) << "the waiting rows are judged anew after each";
  for (uint64_t version = 1; version <= kDefinitions; ++version) {
    const auto found = cache.Definition(Uid(), version);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->record->version(), version);
  }
}

// This happens when several runs of one schedule are launched together.
TEST(RecordCacheTest, LastValueOfAStateInACommitCounts) {
  sim::SimRuntime runtime{5};
  kv::MemKvStore store(runtime, {});
  const std::shared_ptr<Executor> executor = runtime.NewExecutor("handler");
  kv::KvClient::Options options;
  options.name = "test";
  kv::KvClient client(store, runtime, std::move(options));
  const auto put = [&](std::vector<int64_t> cancelled_before) {
    kv::Commit commit;
    for (const int64_t micros : cancelled_before) {
      storage::v1::StateRecord record;
      record.set_cancelled_before_micros(micros);
      commit.groups.emplace_back().mutations.push_back({.cf = ColumnFamily::kStates,
                                                        .key = StateKey(Uid()),
                                                        .value = record.SerializeAsString()});
    }
    client.CommitAsync(std::move(commit), executor, [](absl::StatusOr<kv::CommitResult>) {});
    runtime.AdvanceBy(absl::Seconds(1));
  };
  RecordCache cache(client, executor, [] {});
  std::vector<int64_t> told;
  cache.NotifyChanges([&](const Uid& uid) {
    told.push_back(cache.StateIfKnown(uid)->record->cancelled_before_micros());
  });
  executor->Post([&] { cache.Start(); });
  put({1});
  executor->Post([&] {
    EXPECT_EQ(cache.State(Uid()), nullptr);
    cache.Fetch();
  });
  runtime.AdvanceBy(absl::Seconds(1));
  told.clear();
  put({16, 20});
  ASSERT_NE(cache.StateIfKnown(Uid()), nullptr);
  EXPECT_EQ(cache.StateIfKnown(Uid())->record->cancelled_before_micros(), 20);
  EXPECT_EQ(told, (std::vector<int64_t>{20, 20}));
}

}  // namespace record_cache_test
}  // namespace escapement
