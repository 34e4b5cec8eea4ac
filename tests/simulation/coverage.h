// Counts by name what has happened in runs: windows in which an event is sent twice, reasons of
// outcomes, ends of tokens, results of commits whose answer was lost, takeovers, users' calls. A
// thousand runs in which something never happened prove nothing about it.
//
// Pure.

#ifndef TESTS_SIMULATION_COVERAGE_H_
#define TESTS_SIMULATION_COVERAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

struct Coverage {
  std::map<std::string, uint64_t> counts;

  void Add(const std::string& name, uint64_t count = 1) { counts[name] += count; }
};

Coverage CoverageOf(const History& history);

// Adds the counts of another run.
void Merge(const Coverage& from, Coverage* into);
// Adds the faults that happened, by kind (FaultPlan::counts).
void AddFaults(const std::map<std::string, uint64_t>& faults, Coverage* into);

// The names of situations that a large run of the cast `whole` must show, and that have not
// happened.
std::vector<std::string> Missing(const Coverage& coverage);

// One line for each name: "  name: count".
std::string Text(const Coverage& coverage);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_COVERAGE_H_
