// The platform keeps its promises under the faults of 50 seeds, sharded over the test's shards, and
// in a run without faults.

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace {

class Seeds : public testing::TestWithParam<uint64_t> {};

TEST_P(Seeds, KeepTheirPromisesUnderFaults) {
  ScenarioOptions options;
  options.seed = GetParam();
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  // The run was one.
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Fifty, Seeds, testing::Range<uint64_t>(1, 51));

// Each has found a bug once: 70, 158 and 221 a row that was claimed twice after a late answer, 148,
// 220, 238 and 254 a cancel that was refused for its own effect (of the fifty: 1, 4, 10, 14 and 47
// a store clock that was ahead after a restart).
INSTANTIATE_TEST_SUITE_P(OnceFailed, Seeds, testing::Values(70, 148, 158, 220, 221, 238, 254));

class FaultFree : public testing::TestWithParam<uint64_t> {};

TEST_P(FaultFree, DeliversEachEventOnceButForRetries) {
  ScenarioOptions options;
  options.seed = GetParam();
  options.faults = false;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Six, FaultFree, testing::Range<uint64_t>(0, 6));

}  // namespace
}  // namespace escapement::simulation
