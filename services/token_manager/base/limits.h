// Bounds of the token manager, each with its effect. TokenManagerOptions has the values that a
// process or a test can set.

#ifndef SERVICES_TOKEN_MANAGER_BASE_LIMITS_H_
#define SERVICES_TOKEN_MANAGER_BASE_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace escapement::token_manager {

// A grant with no report this long after its last possible answer counts as silent: its handler is
// gone, and so is the one that took over. The token is taken back.
inline constexpr absl::Duration kUndeliveredSlack = absl::Seconds(30);

// A grant is made this long before the due time, so that a commit may take this long. The handler
// waits for the due time.
inline constexpr absl::Duration kGrantLead = absl::Milliseconds(10);

// Rows with grants in one commit.
inline constexpr size_t kGrantRowsMax = 1024;

// A report that frees nothing (events have arrived and keep their token) is written with the next
// commit, and no later than this. A commit of its own would delay one that frees tokens.
inline constexpr absl::Duration kNewsDelay = absl::Milliseconds(20);

// Completions of Apply that wait. Further callers get no room, and store a report instead.
inline constexpr size_t kCompletionsMax = 16'384;

// Pause after the store had no room for a commit.
inline constexpr absl::Duration kRetryCommitDelay = absl::Milliseconds(100);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_BASE_LIMITS_H_
