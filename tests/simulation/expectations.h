// Which runs a history's users had a right to, by the naive expander.
//
// A change takes effect somewhere between its call and its answer: what falls due in between may
// follow either side.
//
// Pure.

#ifndef TESTS_SIMULATION_EXPECTATIONS_H_
#define TESTS_SIMULATION_EXPECTATIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tests/simulation/history.h"

namespace escapement::simulation {

struct ExpectedRun {
  absl::Time due;
  std::set<int64_t> counts;  // n by each definition that has the occurrence
  // It must end. Else it may have been: of a time at which the schedule was just being changed.
  bool required = false;
  // The schedule never was in a state that fires it: rows of it may have been made ahead, and may
  // only end as skipped.
  bool only_skips = true;
};

// (uid, occurrence) → run.
using ExpectedRuns = std::map<std::pair<std::string, std::string>, ExpectedRun>;

ExpectedRuns ExpectRuns(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_EXPECTATIONS_H_
