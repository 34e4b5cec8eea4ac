// The simulation's own idea of cron: it walks every civil second (minute) and asks absl::TimeZone
// about each. It shares no code with common/cron, which it judges. AUTO rules of daylight saving
// only.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_MODEL_NAIVE_EXPANDER_H_
#define TESTS_SIMULATION_CHECKERS_MODEL_NAIVE_EXPANDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

struct ExpectedOccurrence {
  absl::Time instant;
  std::string id;  // as it stands in event ids and keys: civil time, fold, zone
};

// In order, those in [begin, end). Fields: `*`, `*/n`, `a`, `a-b`, `a-b/n` and lists of them;
// aborts on anything else.
std::vector<ExpectedOccurrence> ExpandNaively(absl::string_view cron, absl::string_view zone,
                                              absl::Time begin, absl::Time end);

// The same of all that a definition may be: of cron expressions, intervals and instants, what its
// exclusions, start and end leave. (max_runs left aside.)
std::vector<ExpectedOccurrence> ExpandNaively(const Definition& definition, absl::Time begin,
                                              absl::Time end);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_MODEL_NAIVE_EXPANDER_H_
