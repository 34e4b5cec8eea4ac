// The checkers can see: each planted fault is caught, by a rule that it is known to break. Without
// a planted fault no checker reports anything.

#include "tests/simulation/mutants/mutants.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace mutants_test {

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreCaught) {
  const Mutant& mutant = GetParam();
  ASSERT_LE(mutant.seeds_max, 20);
  const Catch caught = Hunt(mutant, mutant.seeds_max);
  std::printf("%s\n", Describe(mutant, caught).c_str());
  EXPECT_NE(caught.rule, "") << mutant.fault << ": " << Describe(mutant, caught);
}

INSTANTIATE_TEST_SUITE_P(Each, Mutants, testing::ValuesIn(AllMutants()),
                         [](const testing::TestParamInfo<Mutant>& info) {
                           return info.param.name;
                         });

// These are the seeds that catch most mutants.
class Unchanged : public testing::TestWithParam<std::tuple<Cast, bool, uint64_t>> {};

TEST_P(Unchanged, NoCheckerCries) {
  ScenarioOptions options;
  std::tie(options.cast, options.faults, options.seed) = GetParam();
  EXPECT_EQ(Report(options, RunScenario(options)), "");
}

INSTANTIATE_TEST_SUITE_P(Calm, Unchanged,
                         testing::Combine(testing::Values(Cast::kPlain, Cast::kThrottled),
                                          testing::Values(false), testing::Values(1, 2)));
INSTANTIATE_TEST_SUITE_P(Faults, Unchanged,
                         testing::Combine(testing::Values(Cast::kPlain, Cast::kThrottled),
                                          testing::Values(true), testing::Values(1, 2)));
INSTANTIATE_TEST_SUITE_P(Downtimes, Unchanged,
                         testing::Combine(testing::Values(Cast::kTimes), testing::Values(true),
                                          testing::Values(3, 6, 9)));

TEST(Habits, WorkersOfAMutantAloneBreakNoRule) {
  for (const Mutant& mutant : AllMutants()) {
    if (!mutant.work.has_value()) continue;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      ScenarioOptions options;
      options.seed = seed;
      options.cast = mutant.cast;
      options.faults = mutant.faults;
      options.work = mutant.work;
      EXPECT_EQ(Report(options, RunScenario(options)), "") << "the workers of " << mutant.name;
    }
  }
}

}  // namespace mutants_test
}  // namespace escapement::simulation
