#include "tests/simulation/tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace escapement::simulation {

void Tally::Add(const ScenarioOptions& options, const ScenarioResult& result) {
  ++seeds_;
  if (!result.violations.empty()) failed_.push_back(options.seed);
  simulated_ += result.simulated;
  receipts_ += result.history.receipts.size();
  outcomes_ += result.history.done.size();
  commits_ += result.history.commits.size();
  steps_ += result.events_run;
  killed_ += static_cast<uint64_t>(result.killed);
  Merge(CoverageOf(result.history), &coverage_);
  AddFaults(result.faults, &coverage_);
  for (size_t i = 0; i < kSiteCount; ++i) {
    hits_[i] += result.site_hits[i];
    passages_[i] += result.site_passages[i];
  }
}

std::string Tally::Text(absl::Duration took) const {
  std::string text = absl::StrCat(
      seeds_, " seeds, ", absl::FormatDuration(absl::Trunc(simulated_, absl::Seconds(1))),
      " of simulated time in ", absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(100))),
      " of a core: ", static_cast<int64_t>(absl::FDivDuration(simulated_, took)),
      " times real time\n", receipts_, " receipts, ", outcomes_, " outcomes, ", commits_,
      " commits, ", steps_, " steps, ", killed_, " kills\nwhat has happened:\n",
      simulation::Text(coverage_));
  absl::StrAppend(&text, "perturbation points (hit of passed):");
  for (size_t i = 0; i < kSiteCount; ++i)
    absl::StrAppend(&text, "\n  ", kSites[i].name, ": ", hits_[i], " of ", passages_[i]);
  absl::StrAppend(&text, "\n", failed_.size(), " failed");
  std::vector<uint64_t> failed = failed_;
  std::sort(failed.begin(), failed.end());
  for (uint64_t seed : failed) absl::StrAppend(&text, " ", seed);
  return text + "\n";
}

}  // namespace escapement::simulation
