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
  std::set<int64_t> counts;  // event count in each definition that has the occurrence
  // True: it must have an outcome. False: it may have one, because its schedule was being changed
  // at its time.
  bool required = false;
  // The schedule was never in a state that fires the occurrence. Rows may have been made ahead;
  // they may only end as skipped.
  bool only_skips = true;
  bool backfilled = false;
};

// (uid, occurrence) → run.
using ExpectedRuns = std::map<std::pair<std::string, std::string>, ExpectedRun>;

ExpectedRuns ExpectRuns(const History& history);

// The data that several checkers share, because it is expensive to compute.
struct Expectations {
  std::vector<LifeModel> models;  // one for each of History::schedules, in that order
  ExpectedRuns runs;
};

Expectations Expect(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_MODEL_EXPECTATIONS_H_
