// Names of revisions of the time zone database, and which of two is the newer one.
//
// A revision is the version that the database says of itself: a year, letters, and whatever follows
// ("2026b", "2026b.1"). Two machines of one version have the same rules, as far as anything is
// decided by them. A database that does not say its version is "unknown-" and the hash of all its
// rules: it is neither newer nor older than any other, so machines with such databases work
// together only if the rules are the same.
//
// Pure.

#ifndef COMMON_TZDATA_REVISION_H_
#define COMMON_TZDATA_REVISION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::tzdata {

inline constexpr absl::string_view kUnknownVersion = "unknown";

// Is revision `a` certainly newer than `b`? By year, then letters ("z" before "aa"), then the rest
// as text.
bool Newer(absl::string_view a, absl::string_view b);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REVISION_H_
