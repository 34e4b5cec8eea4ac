// The difference between two texts, line by line, as `diff -u` shows it. Pure.

#ifndef TOOLS_ESCCTL_APPLY_LINE_DIFF_H_
#define TOOLS_ESCCTL_APPLY_LINE_DIFF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::escctl {

// "--- {before_name}", "+++ {after_name}" and hunks with three lines of context. Empty if the texts
// are the same. Texts with very many different lines are shown as one replacement.
std::string UnifiedDiff(absl::string_view before_name, absl::string_view before,
                        absl::string_view after_name, absl::string_view after);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_LINE_DIFF_H_
