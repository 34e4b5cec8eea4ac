// The platform keeps its promises to a tenant of a cell other than the home cell, through ten
// minutes of faults of both cells. Masters forget the map of cells with each of their deaths, and
// the home cell is away at times.

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace cells_test {

// A sample: `tools/dev sim --cast=cells --seeds=300` runs more.
constexpr uint64_t kLastSeed = 40;

class Cells : public testing::TestWithParam<uint64_t> {};

TEST_P(Cells, KeepTheirPromisesForTenMinutes) {
  ScenarioOptions options;
  options.seed = GetParam();
  options.cast = Cast::kCells;
  options.length = absl::Minutes(10);
  options.perturb = true;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  EXPECT_GT(result.history.receipts.size(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Cells, testing::Range<uint64_t>(1, kLastSeed + 1));

}  // namespace cells_test
}  // namespace escapement::simulation
