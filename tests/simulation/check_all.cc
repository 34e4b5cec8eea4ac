#include "tests/simulation/check_all.h"

#include <initializer_list>
#include <utility>

#include "tests/simulation/check_acknowledged.h"
#include "tests/simulation/check_attempts.h"
#include "tests/simulation/check_cap.h"
#include "tests/simulation/check_checkpoint.h"
#include "tests/simulation/check_claimed.h"
#include "tests/simulation/check_clock.h"
#include "tests/simulation/check_doubled.h"
#include "tests/simulation/check_early.h"
#include "tests/simulation/check_final.h"
#include "tests/simulation/check_idle.h"
#include "tests/simulation/check_lost.h"
#include "tests/simulation/check_overdue.h"
#include "tests/simulation/check_overlap.h"
#include "tests/simulation/check_paused.h"
#include "tests/simulation/check_requests.h"
#include "tests/simulation/check_sink.h"
#include "tests/simulation/check_stale_epoch.h"
#include "tests/simulation/check_times.h"
#include "tests/simulation/check_token_end.h"
#include "tests/simulation/store_times.h"

namespace escapement::simulation {
namespace {

using Check = std::vector<Violation> (*)(const History&);

void Run(std::initializer_list<Check> checks, const History& history,
         std::vector<Violation>* violations) {
  for (const Check check : checks) {
    for (Violation& violation : check(history)) violations->push_back(std::move(violation));
  }
}

}  // namespace

std::vector<Violation> CheckAll(const History& history) {
  std::vector<Violation> violations;
  // What is due is due by the store's clock.
  if (history.clock_leaps) {
    Run({CheckLost, CheckEarly, CheckCheckpoint, CheckOverdue}, InStoreTime(history), &violations);
    Run({CheckDoubled}, InTrueTime(history), &violations);
  } else {
    Run({CheckLost, CheckEarly, CheckCheckpoint, CheckOverdue, CheckDoubled}, history, &violations);
  }
  Run({CheckStaleEpoch, CheckCap, CheckTokenEnd, CheckIdle, CheckSink, CheckClock,
       CheckAcknowledged, CheckFinal, CheckPaused, CheckClaimed, CheckRequests, CheckAttempts},
      history, &violations);
  if (history.calendar) Run({CheckTimes, CheckOverlap}, history, &violations);
  return violations;
}

}  // namespace escapement::simulation
