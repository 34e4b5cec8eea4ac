#include "common/records/record_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/kv/forwarding_kv_store.h"
#include "common/kv/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

using kv::ColumnFamily;

// Notes how many definitions each read asks for.
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

// 400 KB is about the most that a definition can be; an answer of the store's is at most 64 MB.
TEST(RecordCacheTest, NoReadAsksForMoreDefinitionsThanAnAnswerCanHold) {
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

// As when several runs of one schedule are launched together.
TEST(RecordCacheTest, OfAStateThatACommitWritesTwiceTheLastWordCounts) {
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

}  // namespace
}  // namespace escapement
