#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {

std::vector<Violation> CheckReads(const History& history) {
  std::vector<Violation> violations;
  std::vector<const ReadSeen*> by_call;
  for (const ReadSeen& read : history.reads) by_call.push_back(&read);
  std::stable_sort(by_call.begin(), by_call.end(),
                   [](const ReadSeen* a, const ReadSeen* b) { return a->called < b->called; });
  uint64_t highest = 0;
  auto told = history.acknowledged.begin();
  for (const ReadSeen* read : by_call) {
    for (; told != history.acknowledged.end() && told->answered < read->called; ++told) {
      if (told->applied) highest = std::max(highest, told->seq);
    }
    if (read->seq >= highest) continue;
    violations.push_back(
        {"stale_read",
         absl::StrCat("a read that ", read->process, " called at ",
                      absl::FormatTime(read->called, absl::UTCTimeZone()), " showed commit ",
                      read->seq, ", but somebody had been told of commit ", highest)});
  }
  return violations;
}

}  // namespace escapement::simulation
