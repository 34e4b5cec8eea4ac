// Which runs a history's users had a right to, by the naive expander.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_MODEL_EXPECTATIONS_H_
#define TESTS_SIMULATION_CHECKERS_MODEL_EXPECTATIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/checkers/model/life_model.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

struct ExpectedRun {
  absl::Time due;
  std::set<int64_t> counts;  // n by each definition that has the occurrence
  // It must have an outcome. Else it may have one: of a time at which the schedule was just being
  // changed.
  bool required = false;
  // The schedule never was in a state that fires it: rows of it may have been made ahead, and may
  // only end as skipped.
  bool only_skips = true;
  bool backfilled = false;
};

// (uid, occurrence) → run.
using ExpectedRuns = std::map<std::pair<std::string, std::string>, ExpectedRun>;

ExpectedRuns ExpectRuns(const History& history);

// What several checkers judge by: dear to make, the same for all.
struct Expectations {
  std::vector<LifeModel> models;  // of History::schedules, in that order
  ExpectedRuns runs;
};

Expectations Expect(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_MODEL_EXPECTATIONS_H_
