// Finds the civil times that an expression matches and none of its exclusions does, without zones.
// Times are local seconds (zone.h).
//
// Pure, and exact for any exclusions. Days that the same exclusions match are decided together, and
// so are hours and minutes. So a search visits each month once, and few times of day.

#ifndef COMMON_CRON_ALLOWED_MATCH_H_
#define COMMON_CRON_ALLOWED_MATCH_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "common/cron/cron_expression.h"

namespace escapement::cron {

// The first (or: last) such local second in [begin, end). Both must be in the years of zone.h.
std::optional<int64_t> FirstAllowed(const CronExpression& expression,
                                    absl::Span<const CronExpression> exclusions, int64_t begin,
                                    int64_t end);
std::optional<int64_t> LastAllowed(const CronExpression& expression,
                                   absl::Span<const CronExpression> exclusions, int64_t begin,
                                   int64_t end);

}  // namespace escapement::cron

#endif  // COMMON_CRON_ALLOWED_MATCH_H_
