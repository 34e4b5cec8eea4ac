// Which civil times an expression matches and none of its exclusions does, zones left aside. Times
// are local seconds (zone.h).
//
// Pure. Exact, however much is excluded: days that the same exclusions match are judged as one, and
// so are hours and minutes, so that a search looks at each month once and at few times of day.

#ifndef COMMON_CRON_ALLOWED_MATCH_H_
#define COMMON_CRON_ALLOWED_MATCH_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "common/cron/cron_expression.h"

namespace escapement::cron {

// The first / last such local second in [begin, end), within the years of zone.h.
std::optional<int64_t> FirstAllowed(const CronExpression& expression,
                                    absl::Span<const CronExpression> exclusions, int64_t begin,
                                    int64_t end);
std::optional<int64_t> LastAllowed(const CronExpression& expression,
                                   absl::Span<const CronExpression> exclusions, int64_t begin,
                                   int64_t end);

}  // namespace escapement::cron

#endif  // COMMON_CRON_ALLOWED_MATCH_H_
