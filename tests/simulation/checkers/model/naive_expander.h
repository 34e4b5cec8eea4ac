// The simulation's own idea of cron: it walks every civil second (minute) and asks absl::TimeZone
// about each. It judges common/cron, and shares no code with it. It knows only the AUTO rules of
// daylight saving.
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
  std::string id;  // as in event ids and keys: civil time, fold, zone
};

// The occurrences in [begin, end), in order. Fields: `*`, `*/n`, `a`, `a-b`, `a-b/n` and lists of
// them; aborts on anything else.
std::vector<ExpectedOccurrence> ExpandNaively(absl::string_view cron, absl::string_view zone,
                                              absl::Time begin, absl::Time end);

// The same for a whole definition: cron expression, interval or instants, within its exclusions,
// start and end. Ignores max_runs.
std::vector<ExpectedOccurrence> ExpandNaively(const Definition& definition, absl::Time begin,
                                              absl::Time end);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_MODEL_NAIVE_EXPANDER_H_
