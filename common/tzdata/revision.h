// Names of revisions of the time zone database, and their order.
//
// A revision is the version that the database states: a year, letters, and any rest ("2026b",
// "2026b.1"). Two machines with one version count as having the same rules. A database without a
// version has the revision "unknown-" and the hash of all its rules. That is neither newer nor
// older than any other, so machines with such databases work together only if their rules are
// equal.
//
// Pure.

#ifndef COMMON_TZDATA_REVISION_H_
#define COMMON_TZDATA_REVISION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::tzdata {

inline constexpr absl::string_view kUnknownVersion = "unknown";

// True if revision `a` is certainly newer than `b`. Compares the years, then the letters ("z"
// before "aa"), then the rest as text.
bool Newer(absl::string_view a, absl::string_view b);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REVISION_H_
