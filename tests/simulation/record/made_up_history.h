// Helpers with which tests of checkers make their histories.
//
// Pure.

#ifndef TESTS_SIMULATION_RECORD_MADE_UP_HISTORY_H_
#define TESTS_SIMULATION_RECORD_MADE_UP_HISTORY_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

inline const absl::Time kBegin = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

inline absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

// The id of an interval's occurrence at that second.
inline std::string Id(int second) {
  return absl::FormatTime("%Y%m%dT%H%M%E6SZ", At(second), absl::UTCTimeZone());
}

// One violation a line.
inline std::string Texts(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += violation.what + "\n";
  return text;
}

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_MADE_UP_HISTORY_H_
