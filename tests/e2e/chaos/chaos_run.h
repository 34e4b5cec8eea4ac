// One run of chaos. Real processes are under load while faults from a seed happen. After a calm all
// schedules end, and the simulation's checkers judge the history.
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
#include "tests/e2e/chaos/base/chaos_plan.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

struct ChaosOptions {
  std::string bin;     // holds services/… and tests/e2e/chaos/logging_store
  std::string folder;  // exists and is empty; data and logs stay there
  PlanOptions plan;    // without processes and links; its seed is also that of the users
  int event_users = 2;
  // 0: one store, and the plan's faults. Otherwise a replicated store, and so many faults of
  // PlanReplicaChaos, with the plan's seed, begin and end.
  int replica_faults = 0;
  // How long users go on after the last fault.
  absl::Duration calm = absl::Seconds(12);
  // How long everything may take to come to rest after that.
  absl::Duration settle_max = absl::Seconds(120);
};

struct ChaosResult {
  simulation::History history;
  std::vector<simulation::Violation> violations;
  std::map<std::string, int> faults;  // by description: "kill handler", "cut (reset)" …
  int kills = 0;
  int pauses = 0;
  int terminations = 0;
  int cuts = 0;
  int promotions = 0;
  uint64_t calls = 0;   // users' calls that were answered
  uint64_t undone = 0;  // commits decided but never durable, because the store was killed
  // Only with a replicated store: the terms in the log, and the calls of its probes.
  uint64_t terms = 0;
  uint64_t probes_answered = 0;
  uint64_t probes_refused = 0;
  uint64_t probes_refused_late = 0;         // by a store that had stood still
  int restores = 0;                         // copies that began with a snapshot
  absl::Duration silence;                   // the longest time in which no probe was answered
  uint64_t again = 0;                       // receipts of events that had arrived before
  std::map<std::string, uint64_t> repeats;  // the same by cause
  absl::Duration took;
};

// Returns an error if the run could not be made.
absl::StatusOr<ChaosResult> RunChaos(const ChaosOptions& options);

// One line. If the run failed, also what is wrong, where its logs are, and how to repeat it.
std::string Report(const ChaosOptions& options, const ChaosResult& result);

// Copies the logs of a run to the folder that Bazel keeps after a test.
void KeepLogs(const std::string& folder);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_CHAOS_RUN_H_
