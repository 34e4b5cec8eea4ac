// One run of chaos: real processes under load, faults from a seed, then calm, the end of all
// schedules, and the judgement of the simulation's checkers.
//
// Threads: the main thread, which starts and ends the processes.

#ifndef TESTS_E2E_CHAOS_CHAOS_RUN_H_
#define TESTS_E2E_CHAOS_CHAOS_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/chaos/chaos_plan.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

struct ChaosOptions {
  std::string bin;     // holds services/… and tests/e2e/chaos/logging_store
  std::string folder;  // exists and is empty; data and logs stay there
  PlanOptions plan;    // but for processes and links; its seed is that of the users, too
  // After the last fault the users go on for so long.
  absl::Duration calm = absl::Seconds(12);
  // Then everything must come to rest within this.
  absl::Duration settle_max = absl::Seconds(120);
};

struct ChaosResult {
  simulation::History history;
  std::vector<simulation::Violation> violations;
  std::map<std::string, int> faults;  // by what they are: "kill handler", "cut (reset)" …
  int kills = 0;
  int pauses = 0;
  int terminations = 0;
  int cuts = 0;
  uint64_t calls = 0;   // of users, answered
  uint64_t undone = 0;  // commits decided and never durable, since the store was killed
  uint64_t again = 0;   // receipts of an event that had arrived before
  std::map<std::string, uint64_t> repeats;  // of those: by cause
  absl::Duration took;
};

// An error: the run itself could not be made.
absl::StatusOr<ChaosResult> RunChaos(const ChaosOptions& options);

// One line; of a run that failed also what is wrong, where its logs are and how to run it again.
std::string Report(const ChaosOptions& options, const ChaosResult& result);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_CHAOS_RUN_H_
