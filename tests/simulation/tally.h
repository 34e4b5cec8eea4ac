// Totals over the runs of many seeds.
//
// Threads: one at a time.

#ifndef TESTS_SIMULATION_TALLY_H_
#define TESTS_SIMULATION_TALLY_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {

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

#endif  // TESTS_SIMULATION_TALLY_H_
