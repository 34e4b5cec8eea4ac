// A cron expression, parsed: one bit mask per field and the facts that its text alone decides.
//
// Pure. The language is five fields `minute hour day-of-month month day-of-week`, six with `second`
// first, and the macros @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. Items
// are `a`, `a-b`, `a-b/n`, `a/n` (from a to the field's highest value), `*/n`; ranges wrap past the
// end of the field and steps count across the wrap; `?` is `*` as the whole of a day field. A year
// field, `L`, `W`, `#` and a leading `+` are refused by name.
//
// Which days: a day field is unrestricted when it is exactly `*` or `?`. Both unrestricted: every
// day. One restricted: that one must match. Both restricted: either matches.

#ifndef COMMON_CRON_CRON_EXPRESSION_H_
#define COMMON_CRON_CRON_EXPRESSION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::cron {

inline constexpr size_t kExpressionBytesMax = 1024;

inline constexpr uint64_t kEverySecondMask = (uint64_t{1} << 60) - 1;
inline constexpr uint64_t kEveryMinuteMask = (uint64_t{1} << 60) - 1;
inline constexpr uint32_t kEveryHourMask = (uint32_t{1} << 24) - 1;
inline constexpr uint32_t kEveryDayOfMonthMask = 0xfffffffe;
inline constexpr uint16_t kEveryMonthMask = 0x1ffe;
inline constexpr uint8_t kEveryWeekdayMask = 0x7f;

struct CronExpression {
  uint64_t seconds = 1;                           // bits 0-59
  uint64_t minutes = kEveryMinuteMask;            // bits 0-59
  uint32_t hours = kEveryHourMask;                // bits 0-23
  uint32_t days_of_month = kEveryDayOfMonthMask;  // bits 1-31
  uint16_t months = kEveryMonthMask;              // bits 1-12
  uint8_t days_of_week = kEveryWeekdayMask;       // bits 0-6, 0 is Sunday
  bool day_of_month_restricted = false;           // the field is neither `*` nor `?`
  bool day_of_week_restricted = false;
  bool second_written = false;
  // Its second (if written), minute or hour field contains `*` or `/`, or covers every value:
  // daylight-saving changes then treat it as a rhythm, else as a time of day.
  bool periodic = false;

  friend bool operator==(const CronExpression&, const CronExpression&) = default;
};

// INVALID_ARGUMENT naming the field and the reason.
absl::StatusOr<CronExpression> ParseCron(absl::string_view text);

// The same as ParseCron, but an absent second means every second: what it matches is left out of a
// schedule.
absl::StatusOr<CronExpression> ParseExclusion(absl::string_view text);

// The same fields by name. `hour` and `minute` are required; an empty date field is `*`, an empty
// `second` is not written (0). Each field must be one field: blanks are refused.
struct CronFields {
  absl::string_view second = {}, minute = {}, hour = {}, day_of_month = {}, month = {},
                    day_of_week = {};
};
absl::StatusOr<CronExpression> ParseCronFields(const CronFields& fields);

}  // namespace escapement::cron

#endif  // COMMON_CRON_CRON_EXPRESSION_H_
