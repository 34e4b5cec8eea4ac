// The platform keeps its promises under the faults of many seeds of each cast, sharded over the
// test's shards; and in runs without faults.

#include <cstdint>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace seeds_test {

// Runs the seed, and expects that no checker reports anything.
ScenarioResult RunSeed(uint64_t seed, Cast cast, bool faults = true) {
  ScenarioOptions options;
  options.seed = seed;
  options.cast = cast;
  options.faults = faults;
  ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  return result;
}

class Seeds : public testing::TestWithParam<uint64_t> {};

TEST_P(Seeds, KeepTheirPromisesUnderFaults) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kPlain);
  // The run was not empty.
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Fifty, Seeds, testing::Range<uint64_t>(1, 51));

// Seeds that each found a bug once:
// - 151, 193 and 221: a lease that two instances left to each other after a lost session
// - 188 and 256: a store that followed a wrong wall clock over a restart
// - 204, 363 and 452: a row that was claimed twice after a late answer
// - 2381: an event that killed a fourth handler
// - 5249: an occurrence with two rows after its schedule was changed to another definition and back
INSTANTIATE_TEST_SUITE_P(OnceFailed, Seeds,
                         testing::Values(151, 193, 221, 188, 256, 204, 363, 452, 2381, 5249));

class FaultFree : public testing::TestWithParam<uint64_t> {};

TEST_P(FaultFree, DeliversEachEventOnceButForRetries) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kPlain, /*faults=*/false);
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Six, FaultFree, testing::Range<uint64_t>(0, 6));

class Throttled : public testing::TestWithParam<uint64_t> {};

TEST_P(Throttled, KeepTheirPromisesUnderFaults) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kThrottled);
  EXPECT_GT(result.history.works.size(), 20u);
}

// In seeds 8, 9, 15, 19 and 26 events of even windows once went out up to 10 ms before their place
// in the window.
INSTANTIATE_TEST_SUITE_P(Thirty, Throttled, testing::Range<uint64_t>(1, 31));

// Seeds that each found a bug once:
// - 319 and 539: a row of an occurrence whose schedule had been changed, and changed back after the
//   occurrence had passed
// - 473: a policy that was re-read as of a moment before its last grant
// - 409, 499 and 527: a token that was taken back when an event was claimed again and the second
//   handler did not send it
INSTANTIATE_TEST_SUITE_P(OnceFailed, Throttled, testing::Values(319, 409, 473, 499, 527, 539));

class Clocks : public testing::TestWithParam<uint64_t> {};

TEST_P(Clocks, ThatAreSetBackAndForthMakeNothingEarlyLostOrDoubled) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kClocks);
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Twenty, Clocks, testing::Range<uint64_t>(1, 21));

// In each of these a handler once sent early, after it had stood still through a slow phase of
// store time.
INSTANTIATE_TEST_SUITE_P(OnceFailed, Clocks, testing::Values(55, 110, 183, 185, 187, 250, 262));

class Times : public testing::TestWithParam<uint64_t> {};

TEST_P(Times, EachOccurrenceHasOneOutcomeAndAReason) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kTimes);
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Eighty, Times, testing::Range<uint64_t>(1, 81));

class FaultFreeTimes : public testing::TestWithParam<uint64_t> {};

TEST_P(FaultFreeTimes, EachOccurrenceHasOneOutcomeAndAReason) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kTimes, /*faults=*/false);
  EXPECT_GT(result.history.receipts.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Six, FaultFreeTimes, testing::Range<uint64_t>(0, 6));

TEST(Batches, TwentyThousandEventsKeepTheirPromisesUnderManyKills) {
  const ScenarioResult result = RunSeed(/*seed=*/1, Cast::kBatches);
  EXPECT_GT(result.killed, 25);
  uint64_t ended = 0;
  for (const DoneRow& row : result.history.done) ended += row.count;
  EXPECT_GE(ended, 20'000u);
}

class FaultFreeThrottled : public testing::TestWithParam<uint64_t> {};

TEST_P(FaultFreeThrottled, DeliversEachEventOnceButForRetries) {
  const ScenarioResult result = RunSeed(GetParam(), Cast::kThrottled, /*faults=*/false);
  EXPECT_GT(result.history.works.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Six, FaultFreeThrottled, testing::Range<uint64_t>(0, 6));

// Whenever somebody asks, each occurrence of each schedule is accounted for.
class Accounts : public testing::TestWithParam<std::tuple<Cast, uint64_t>> {};

TEST_P(Accounts, AreCompleteUnderFaults) {
  ScenarioOptions options;
  std::tie(options.cast, options.seed) = GetParam();
  options.length = absl::Minutes(3);
  options.accounts = true;
  const ScenarioResult result = RunScenario(options);
  EXPECT_EQ(Report(options, result), "");
  EXPECT_GT(result.history.accounts.size(), 5u);
  EXPECT_TRUE(result.history.accounts.back().last);
  size_t accounted = 0;
  for (const AccountSeen& account : result.history.accounts) accounted += account.runs.size();
  // A leap of the clock leaves the range of the accounts behind.
  if (options.cast != Cast::kClocks) {
    EXPECT_GT(accounted, 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ten, Accounts,
                         testing::Combine(testing::Values(Cast::kPlain, Cast::kThrottled,
                                                          Cast::kTimes, Cast::kClocks),
                                          testing::Range<uint64_t>(1, 11)));
INSTANTIATE_TEST_SUITE_P(Five, Accounts,
                         testing::Combine(testing::Values(Cast::kMixed, Cast::kReplicated),
                                          testing::Range<uint64_t>(1, 6)));

}  // namespace seeds_test
}  // namespace escapement::simulation
