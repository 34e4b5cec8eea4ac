// Counts by name what has happened in runs: windows in which an event is sent twice, reasons of
// outcomes, ends of tokens, results of commits whose answer was lost, takeovers, users' calls. A
// thousand runs in which something never happened prove nothing about it.
//
// Pure.

#ifndef TESTS_SIMULATION_COVERAGE_H_
#define TESTS_SIMULATION_COVERAGE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/scenario.h"

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

// Totals over the runs of many seeds.
//
// Threads: one at a time.

class Tally {
 public:
  void Add(const ScenarioOptions& options, const ScenarioResult& result);

  uint64_t failed() const { return failed_.size(); }
  // Situations that a large run of the cast `whole` must show, and that have not happened.
  std::vector<std::string> Uncovered() const { return Missing(coverage_); }
  // `took`: processor time of the runs, including their judgement.
  std::string Text(absl::Duration took) const;

 private:
  uint64_t seeds_ = 0;
  std::vector<uint64_t> failed_;
  absl::Duration simulated_;
  uint64_t receipts_ = 0, outcomes_ = 0, commits_ = 0, steps_ = 0, killed_ = 0;
  Coverage coverage_;
  std::array<uint64_t, kSiteCount> hits_ = {};
  std::array<uint64_t, kSiteCount> passages_ = {};
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_COVERAGE_H_
