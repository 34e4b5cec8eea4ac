#include <initializer_list>
#include <utility>

#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/store_observer.h"

namespace escapement::simulation {
namespace {

using Check = std::vector<Violation> (*)(const History&);

void Run(std::initializer_list<Check> checks, const History& history,
         std::vector<Violation>* violations) {
  for (const Check check : checks) {
    for (Violation& violation : check(history)) violations->push_back(std::move(violation));
  }
}

template <std::vector<Violation> (*check)(const History&, const Expectations&)>
void ByExpectations(const History& history, const Expectations& expected,
                    std::vector<Violation>* violations) {
  for (Violation& violation : check(history, expected)) violations->push_back(std::move(violation));
}

}  // namespace

std::vector<Violation> CheckAll(const History& history) {
  std::vector<Violation> violations;
  const auto run_due = [&](const History& in_store_time) {
    const Expectations expected = Expect(in_store_time);
    for (const auto check :
         {&ByExpectations<CheckLost>, &ByExpectations<CheckEarly>, &ByExpectations<CheckCheckpoint>,
          &ByExpectations<CheckOverdue>, &ByExpectations<CheckAccount>})
      check(in_store_time, expected, &violations);
    if (history.calendar) ByExpectations<CheckTimes>(history, expected, &violations);
  };
  // Events are due by the store's clock.
  if (history.clock_leaps) {
    run_due(InStoreTime(history));
    Run({CheckDoubled}, InTrueTime(history), &violations);
  } else {
    run_due(history);
    Run({CheckDoubled}, history, &violations);
  }
  Run({CheckStaleEpoch, CheckCap, CheckTokenEnd, CheckHolds, CheckIdle, CheckSink, CheckClock,
       CheckAcknowledged, CheckFinal, CheckPaused, CheckClaimed, CheckRequests, CheckAttempts,
       CheckChildren, CheckCancelled, CheckCounts, CheckReports, CheckReads, CheckLog},
      history, &violations);
  if (history.calendar) Run({CheckOverlap}, history, &violations);
  return violations;
}

}  // namespace escapement::simulation
