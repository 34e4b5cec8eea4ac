#include <string>
#include <utility>

#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"
#include "tests/bench/beds/stored_schedules.h"

namespace escapement::bench {
namespace compacted_store_test {

TEST(CompactedStoreTest, AStoreIsCompactedWithTheSettingsThatItHasLeft) {
  const std::string folder = testing::TempDir() + "/data";
  SystemRuntime runtime;
  {
    kv::RocksKvStore::Options options;
    options.data_dir = folder;
    const auto store = kv::RocksKvStore::Open(std::move(options), runtime.clock());
    ASSERT_TRUE(store.ok()) << store.status();
  }
  const auto sizes = CompactStore(folder);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->count("events"), 1);
  // It still opens as a store.
  kv::RocksKvStore::Options options;
  options.data_dir = folder;
  const auto again = kv::RocksKvStore::Open(std::move(options), runtime.clock());
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(CompactedStoreTest, BareRowsTakeTheirBytesLessWhatCanBeCompressed) {
  const std::string folder = testing::TempDir() + "/like";
  SystemRuntime runtime;
  {
    kv::RocksKvStore::Options options;
    options.data_dir = folder;
    ASSERT_TRUE(kv::RocksKvStore::Open(std::move(options), runtime.clock()).ok());
  }
  const auto bytes = BareBytesPerRow(folder, testing::TempDir() + "/bare", 10'000,
                                     [](uint64_t) { return std::string(500, 'a'); });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 8);
  EXPECT_LT(*bytes, 100);
}

}  // namespace compacted_store_test
}  // namespace escapement::bench
