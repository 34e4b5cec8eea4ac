#include "tests/e2e/chaos/judge_chaos.h"

#include <utility>

#include "tests/simulation/check_cap.h"
#include "tests/simulation/check_clock.h"
#include "tests/simulation/check_doubled.h"
#include "tests/simulation/check_early.h"
#include "tests/simulation/check_lost.h"
#include "tests/simulation/check_overlap.h"
#include "tests/simulation/check_sink.h"
#include "tests/simulation/check_stale_epoch.h"
#include "tests/simulation/check_times.h"
#include "tests/simulation/check_token_end.h"

namespace escapement::chaos {

std::vector<simulation::Violation> JudgeChaos(const simulation::History& history) {
  std::vector<simulation::Violation> violations;
  for (const auto check : {simulation::CheckLost, simulation::CheckEarly, simulation::CheckDoubled,
                           simulation::CheckStaleEpoch, simulation::CheckCap,
                           simulation::CheckTokenEnd, simulation::CheckSink, simulation::CheckClock,
                           simulation::CheckTimes, simulation::CheckOverlap}) {
    for (simulation::Violation& violation : check(history))
      violations.push_back(std::move(violation));
  }
  return violations;
}

}  // namespace escapement::chaos
