// Which civil times an expression matches, zones left aside. Times are local seconds (zone.h).
//
// Pure. The search looks at one bit mask per month, so it ends after at most 2,760 steps (230
// years).

#ifndef COMMON_CRON_CIVIL_MATCH_H_
#define COMMON_CRON_CIVIL_MATCH_H_

#include <cstdint>
#include <optional>

#include "common/cron/cron_expression.h"

namespace escapement::cron {

// The first / last matching local second in [begin, end), within the years of zone.h.
std::optional<int64_t> FirstMatch(const CronExpression& expression, int64_t begin, int64_t end);
std::optional<int64_t> LastMatch(const CronExpression& expression, int64_t begin, int64_t end);

// Does the local second match?
bool Matches(const CronExpression& expression, int64_t local);

// The first local second at or after `local` that does not match; at most kLocalEnd. Found in steps
// of whole stretches that match (seconds of a minute, minutes of an hour, …, days), so that it ends
// soon also where every second matches.
int64_t FirstUnmatched(const CronExpression& expression, int64_t local);

// Does the civil day match? `weekday` is 0 for Sunday.
bool DayMatches(const CronExpression& expression, int month, int day, int weekday);

// True if every day of a matching month matches.
bool EveryDay(const CronExpression& expression);

struct CivilDate {
  int year = 1970;
  int month = 1;    // 1-12
  int day = 1;      // 1-31
  int weekday = 4;  // 0 is Sunday
};
// `day` counts from 1970-01-01 and is not negative.
CivilDate DateOfDay(int64_t day);

}  // namespace escapement::cron

#endif  // COMMON_CRON_CIVIL_MATCH_H_
