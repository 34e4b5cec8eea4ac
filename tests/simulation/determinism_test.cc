// Two runs of one seed are equal, to the last event.

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace determinism_test {

TEST(Determinism, TheSameSeedGivesTheSameTraceAndAnotherSeedAnotherOne) {
  ScenarioOptions options;
  options.seed = 11;
  const ScenarioResult first = RunScenario(options);
  const ScenarioResult second = RunScenario(options);
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_EQ(first.events_run, second.events_run);
  EXPECT_EQ(first.history.receipts.size(), second.history.receipts.size());
  options.seed = 12;
  EXPECT_NE(RunScenario(options).trace_hash, first.trace_hash);
}

TEST(Determinism, HoldsForTokensToo) {
  ScenarioOptions options;
  options.seed = 11;
  options.cast = Cast::kThrottled;
  const ScenarioResult first = RunScenario(options);
  const ScenarioResult second = RunScenario(options);
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_EQ(first.history.works.size(), second.history.works.size());
}

TEST(Determinism, HoldsForReplicasToo) {
  ScenarioOptions options;
  options.seed = 12;
  options.cast = Cast::kReplicated;
  options.length = absl::Minutes(3);
  const ScenarioResult first = RunScenario(options);
  const ScenarioResult second = RunScenario(options);
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_EQ(first.history.log.size(), second.history.log.size());
}

}  // namespace determinism_test
}  // namespace escapement::simulation
