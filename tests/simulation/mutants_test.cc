// The checkers are not blind: each catches a fault that was planted in the running platform, and
// none cries without one.

#include "tests/simulation/mutants.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {
namespace {

// In how many of the seeds the rule is found broken.
int Caught(absl::string_view rule, ScenarioOptions options, std::initializer_list<uint64_t> seeds) {
  int caught = 0;
  for (uint64_t seed : seeds) {
    options.seed = seed;
    for (const Violation& violation : RunScenario(options).violations) {
      if (violation.rule != rule) continue;
      ++caught;
      break;
    }
  }
  return caught;
}

TEST(Mutants, ARowThatWasAcknowledgedAndLostIsCaught) {
  EXPECT_EQ(Caught("lost", {.faults = false, .decorate_store = LosesAcknowledgedRow(2)}, {1, 2}),
            2);
}

TEST(Mutants, AHandlerWhoseClockRunsAheadIsCaught) {
  EXPECT_EQ(
      Caught("early",
             {.faults = false, .decorate_store = ClockOfHandlersRunsAhead(absl::Milliseconds(100))},
             {1, 2}),
      2);
}

TEST(Mutants, ATransportThatSendsTwiceIsCaught) {
  EXPECT_EQ(Caught("doubled", {.faults = false, .decorate_transport = SendsTwice(20)}, {1, 2}), 2);
  EXPECT_EQ(Caught("doubled", {.faults = true, .decorate_transport = SendsTwice(20)}, {3}), 1);
}

TEST(Mutants, HandlersThatWriteWithoutFenceAreCaught) {
  EXPECT_EQ(Caught("stale_epoch", {.decorate_store = HandlersWriteUnfenced()}, {1, 2}), 2);
}

ScenarioOptions Throttled(StoreDecorator decorate) {
  ScenarioOptions options;
  options.cast = Cast::kThrottled;
  options.faults = false;
  options.decorate_store = std::move(decorate);
  return options;
}

TEST(Mutants, TokenManagersThatGrantOneMoreAreCaught) {
  EXPECT_EQ(Caught("cap", Throttled(TokenManagersGrantOneMore()), {1, 2}), 2);
}

TEST(Mutants, TokenManagersThatLoseAnOutcomeAreCaught) {
  EXPECT_EQ(Caught("token_end", Throttled(TokenManagersLoseOutcome(20)), {1, 2}), 2);
}

TEST(Mutants, TokenManagersThatLetTokensLieIdleAreCaught) {
  EXPECT_EQ(Caught("idle", Throttled(TokenManagersAreSlow(absl::Seconds(2))), {1, 2}), 2);
}

TEST(Mutants, ATokenThatIsTakenBackFromAConsumerAtWorkIsCaught) {
  EXPECT_EQ(Caught("sink", Throttled(HandlersReportReturned(20)), {1, 2}), 2);
}

ScenarioOptions Times(StoreDecorator decorate) {
  ScenarioOptions options;
  options.cast = Cast::kTimes;
  options.decorate_store = std::move(decorate);
  return options;
}

// In these seeds nothing happens but that all emitters are down at times.
constexpr std::initializer_list<uint64_t> kDowntimes = {6, 24, 39, 60, 87, 129};

TEST(Mutants, NoneCriesInTheSeedsOfTheNextOnes) {
  for (uint64_t seed : kDowntimes) {
    ScenarioOptions options = Times(nullptr);
    options.seed = seed;
    EXPECT_EQ(Report(options, RunScenario(options)), "");
  }
}

TEST(Mutants, AnIntervalThatDoesNotMoveOnIsCaught) {
  EXPECT_GE(Caught("doubled", Times(EmittersLeaveIntervals()), kDowntimes), 4);
}

TEST(Mutants, AMissedOccurrenceWithoutARecordIsCaught) {
  EXPECT_GE(Caught("lost", Times(EmittersForgetSkipped(2)), kDowntimes), 3);
}

TEST(Mutants, ARunThatIsLaunchedWhileAnotherIsActiveIsCaught) {
  EXPECT_GE(Caught("overlap", Times(EmittersForgetActiveRuns()), kDowntimes), 2);
}

TEST(Mutants, ASummaryThatDoesNotCountAllIsCaught) {
  EXPECT_GE(Caught("lost", Times(EmittersMiscountSummaries()), kDowntimes), 2);
}

}  // namespace
}  // namespace escapement::simulation
