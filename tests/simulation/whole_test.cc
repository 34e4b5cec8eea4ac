// The platform keeps its promises through ten minutes of everything at once, under many seeds. The
// test also requires that the interesting situations have happened: each window in which an event
// may arrive twice, each reason for which an event is not sent, each fault.

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace whole_test {

// A sample: `tools/dev sim --cast=whole --covers --seeds=300` runs more.
constexpr uint64_t kSeeds = 80;
// With fewer seeds not every situation can be expected.
constexpr uint64_t kSeedsToCover = 70;

// Collected over all seeds of this process.
struct Seen {
  uint64_t seeds = 0;
  Coverage coverage;
  std::array<uint64_t, kSiteCount> site_hits = {};
};

Seen& TheSeen() {
  static auto* const seen = new Seen;
  return *seen;
}

class Whole : public testing::TestWithParam<uint64_t> {};

TEST_P(Whole, KeepsItsPromisesForTenMinutes) {
  ScenarioOptions options;
  options.seed = GetParam();
  options.cast = GetParam() % 2 == 0 ? Cast::kMixed : Cast::kWhole;
  options.length = absl::Minutes(10);
  options.perturb = true;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  EXPECT_GT(result.history.receipts.size(), 100u);
  Seen& seen = TheSeen();
  ++seen.seeds;
  Merge(CoverageOf(result.history), &seen.coverage);
  AddFaults(result.faults, &seen.coverage);
  for (size_t i = 0; i < kSiteCount; ++i) seen.site_hits[i] += result.site_hits[i];
}

INSTANTIATE_TEST_SUITE_P(Seeds, Whole, testing::Range<uint64_t>(1, kSeeds + 1));

class NothingIsLeftOut : public testing::Environment {
 public:
  void TearDown() override {
    const Seen& seen = TheSeen();
    if (seen.seeds < kSeedsToCover) return;
    EXPECT_THAT(Missing(seen.coverage), testing::IsEmpty());
    std::set<std::string> never;
    for (size_t i = 0; i < kSiteCount; ++i) {
      if (seen.site_hits[i] == 0) never.insert(std::string(kSites[i].name));
    }
    EXPECT_THAT(never, testing::IsEmpty());
  }
};

const testing::Environment* const kNothingIsLeftOut =
    testing::AddGlobalTestEnvironment(new NothingIsLeftOut);

}  // namespace whole_test
}  // namespace escapement::simulation
