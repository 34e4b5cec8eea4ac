// The platform keeps its promises over a store of several replicas, through ten minutes of kills,
// pauses, handovers and faults of the log besides everything else. The test also requires that the
// faults and takeovers have happened.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace replicated_test {

// A sample: `tools/dev sim --cast=replicated --seeds=3000` runs more. In every fourth seed the
// replicas have machines and clocks of their own (cast.cc).
constexpr uint64_t kLastSeed = 80;
// With fewer runs not every situation can be expected.
constexpr uint64_t kRunsToCover = 70;

// Collected over all seeds of this process.
struct Seen {
  uint64_t runs = 0;
  std::map<std::string, uint64_t> faults;
};

Seen& TheSeen() {
  static auto* const seen = new Seen;
  return *seen;
}

class Replicated : public testing::TestWithParam<uint64_t> {};

TEST_P(Replicated, KeepsItsPromisesForTenMinutes) {
  ScenarioOptions options;
  options.seed = GetParam();
  options.cast = Cast::kReplicated;
  options.length = absl::Minutes(10);
  options.perturb = true;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  EXPECT_GT(result.history.receipts.size(), 100u);
  EXPECT_GT(result.history.reads.size(), 100u);
  Seen& seen = TheSeen();
  ++seen.runs;
  for (const auto& [kind, count] : result.faults) seen.faults[kind] += count;
}

INSTANTIATE_TEST_SUITE_P(Seeds, Replicated, testing::Range<uint64_t>(1, kLastSeed + 1));

// The log lacks acknowledged rows for a while, as after a restore from a backup. Replicas wait
// until it has them again.
class SetBackLog : public testing::TestWithParam<uint64_t> {};

TEST_P(SetBackLog, IsRefusedUntilItIsRepaired) {
  ScenarioOptions options;
  options.seed = GetParam();
  options.cast = Cast::kReplicated;
  options.length = absl::Minutes(4);
  options.log_set_back = true;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  const auto set_back = result.faults.find("log set back");
  ASSERT_NE(set_back, result.faults.end());
  EXPECT_EQ(set_back->second, 1u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SetBackLog, testing::Range<uint64_t>(1, 9));

class NothingIsLeftOut : public testing::Environment {
 public:
  void TearDown() override {
    const Seen& seen = TheSeen();
    if (seen.runs < kRunsToCover) return;
    std::set<std::string> never;
    for (const char* kind :
         {"replica killed", "replica killed, folder lost", "replica killed, folder set back",
          "leader paused", "follower paused", "replica stopped in order", "handover",
          "replica cut off from the log", "loss and delay at the log", "log restarts",
          "log without its standby", "shown rows lost", "store led by another replica",
          "handover in the log", "row that proves others", "snapshot uploaded",
          "copy restored from a snapshot"}) {
      const auto found = seen.faults.find(kind);
      if (found == seen.faults.end() || found->second == 0) never.insert(kind);
    }
    EXPECT_THAT(never, testing::IsEmpty());
  }
};

const testing::Environment* const kNothingIsLeftOut =
    testing::AddGlobalTestEnvironment(new NothingIsLeftOut);

}  // namespace replicated_test
}  // namespace escapement::simulation
