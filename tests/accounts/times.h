// When a schedule of the test fires: the definition that the master gets, and its occurrences,
// counted without any code of the platform. Offsets of the zones are written down by hand.

#ifndef TESTS_ACCOUNTS_TIMES_H_
#define TESTS_ACCOUNTS_TIMES_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::accounts {

// UTC, India, New York and Berlin; right for the year 2026.
inline constexpr int kZones = 4;

// Pure.
struct Times {
  enum class Kind {
    kDaily,     // at hour:minute:second of the zone's clock
    kHourly,    // at minute:second of the zone's clock
    kMinutes,   // each `every` minutes of the zone's clock, at `second`
    kInterval,  // at anchor + k × `every` seconds
    kList,      // at `list`, in UTC
  };
  Kind kind = Kind::kDaily;
  int zone = 0;
  int hour = 0, minute = 0, second = 0;
  int64_t every = 0;
  absl::Time anchor = {};
  std::vector<absl::Time> list = {};  // ascending

  // Sets only the fields that say when it fires.
  void Write(v1::Schedule& schedule) const;
  // The occurrences in [begin, end), ascending.
  std::vector<absl::Time> Between(absl::Time begin, absl::Time end) const;
};

}  // namespace escapement::accounts

#endif  // TESTS_ACCOUNTS_TIMES_H_
