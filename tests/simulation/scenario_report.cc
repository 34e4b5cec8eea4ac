// The text that a failed run prints.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {

std::string Report(const ScenarioOptions& options, const ScenarioResult& result) {
  if (result.violations.empty()) return "";
  std::string report = absl::StrCat("seed ", options.seed, options.faults ? "" : " without faults",
                                    ": ", result.violations.size(), " violations\n");
  for (size_t i = 0; i < std::min<size_t>(result.violations.size(), 20); ++i) {
    absl::StrAppend(&report, "  ", result.violations[i].rule, ": ", result.violations[i].what,
                    "\n");
  }
  absl::StrAppend(
      &report, "run it again: tools/dev sim --seed=", options.seed,
      options.cast == Cast::kPlain ? "" : absl::StrCat(" --cast=", NameOf(options.cast)),
      LastsAsWished(options.cast)
          ? absl::StrCat(" --minutes=", absl::ToInt64Minutes(options.length))
          : "",
      options.faults ? "" : " --nofaults", options.perturb ? "" : " --noperturb", " --trace\n");
  return report;
}

}  // namespace escapement::simulation
