#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"
#include "tests/bench/figures/bench_run.h"

namespace escapement::bench {
namespace passed_time_test {

kv::RocksKvStore::Info InfoOf(const std::string& folder, SystemRuntime& runtime) {
  kv::RocksKvStore::Options options;
  options.data_dir = folder;
  const auto store = kv::RocksKvStore::Open(std::move(options), runtime.clock());
  EXPECT_TRUE(store.ok()) << store.status();
  return (*store)->info();
}

TEST(PassTimeTest, TheStoreIsAnHourFurtherAndHoldsNothingBack) {
  const std::string folder = testing::TempDir() + "/data";
  SystemRuntime runtime;
  const absl::Time before = InfoOf(folder, runtime).store_time;
  ASSERT_TRUE(PassTime(folder, absl::Hours(1)).ok());
  const kv::RocksKvStore::Info after = InfoOf(folder, runtime);
  EXPECT_GE(after.store_time - before, absl::Hours(1));
  EXPECT_LT(after.store_time - before, absl::Hours(1) + absl::Minutes(2));
  EXPECT_FALSE(after.clock_hold);
}

}  // namespace passed_time_test
}  // namespace escapement::bench
