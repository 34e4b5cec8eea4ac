// A parsed cron expression: one bit mask per field, and the facts that follow from its text alone.
//
// Pure; a regular value without pointers. The language has five fields `minute hour day-of-month
// month day-of-week`, six with `second` first, or seven with `year` last too. It also has the
// macros @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. Letters may have any
// case.
//
//   items          `a`, `a-b`, `a-b/n`, `a/n` (from a to the field's highest value), `*/n`. Ranges
//                  wrap past the end of the field and steps count across the wrap; years do not
//                  wrap. `?` is `*`, if it is the whole of a day field.
//   day-of-month   also `L` (the last day), `L-n` (n days before it), `nW`, `LW` and `L-nW` (the
//                  weekday nearest that day, in the same month). A day that the month does not have
//                  matches nothing.
//   day-of-week    also `d#k` (the k-th d of the month), `d#L` and `dL` (the last d); and a leading
//                  `+` before the whole field.
//
// A day field is unrestricted if it is exactly `*` or `?`. If both are unrestricted, every day
// matches. If one is restricted, that one must match. If both are restricted, one of them must
// match, or both with `+`.

#ifndef COMMON_CRON_CRON_EXPRESSION_H_
#define COMMON_CRON_CRON_EXPRESSION_H_

#include <array>
#include <cstddef>
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

// The years of a year field: bits 0-229 are 1970-2199.
struct YearSet {
  static constexpr int kFirst = 1970, kLast = 2199;

  std::array<uint64_t, 4> bits = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0},
                                  (uint64_t{1} << (kLast + 1 - kFirst - 192)) - 1};

  bool Has(int year) const {
    const unsigned i = static_cast<unsigned>(year - kFirst);
    return i <= kLast - kFirst && ((bits[i / 64] >> (i % 64)) & 1) != 0;
  }
  bool Every() const { return *this == YearSet{}; }
  // The nearest year of the set at or after (or: at or before) `year`; 0 if there is none.
  int AtOrAfter(int year) const;
  int AtOrBefore(int year) const;

  friend bool operator==(const YearSet&, const YearSet&) = default;
};

struct CronExpression {
  uint64_t seconds = 1;                 // bits 0-59
  uint64_t minutes = kEveryMinuteMask;  // bits 0-59
  uint32_t hours = kEveryHourMask;      // bits 0-23

  // Day of month, by the form in which each day is written.
  uint32_t days_of_month = kEveryDayOfMonthMask;  // bits 1-31
  uint32_t days_before_last = 0;                  // bits 0-30: `L-n`, `L` is 0
  uint32_t weekdays_near_day = 0;                 // bits 1-31: `nW`
  uint32_t weekdays_near_last = 0;                // bits 0-30: `L-nW`, `LW` is 0

  // Day of week, 0 is Sunday: bits 7 × (k - 1) + d: `d#k`; bits 35 + d: `dL`.
  uint64_t weekdays_of_month = 0;
  uint8_t days_of_week = kEveryWeekdayMask;  // bits 0-6: d

  uint16_t months = kEveryMonthMask;     // bits 1-12
  bool day_of_month_restricted = false;  // true if the field is neither `*` nor `?`
  bool day_of_week_restricted = false;
  bool both_days_match = false;  // true if both are restricted and `+` is given: both must match
  bool second_written = false;
  // True if the second (if written), minute or hour field contains `*` or `/`, or covers every
  // value. At daylight-saving changes the expression then counts as a rhythm, otherwise as a time
  // of day.
  bool periodic = false;

  YearSet years;

  friend bool operator==(const CronExpression&, const CronExpression&) = default;
};

// INVALID_ARGUMENT with the field and the reason.
absl::StatusOr<CronExpression> ParseCron(absl::string_view text);

// The same as ParseCron, but an absent second means every second. A schedule does not fire at times
// that the exclusion matches.
absl::StatusOr<CronExpression> ParseExclusion(absl::string_view text);

// The same fields by name. `hour` and `minute` are required. An empty date field is `*`; an empty
// `second` is absent (0). Each text must be one field: blanks are refused.
struct CronFields {
  absl::string_view second = {}, minute = {}, hour = {}, day_of_month = {}, month = {},
                    day_of_week = {}, year = {};
};
absl::StatusOr<CronExpression> ParseCronFields(const CronFields& fields);
// The fields as one expression, unchecked. It has no more fields than needed: the second is written
// only if the second or the year was given.
std::string TextOf(const CronFields& fields);

// Describes a cron expression in English: "At 03:00, 06:00 and 09:00, every day", "Every 15
// minutes", "At 10:00, on the second Tuesday of the month, in March and June".
//
// The text is true for every expression; of a long list it gives the count ("At 27 different
// minutes of every hour"). "Weekday" without a name is Monday to Friday. Pure.

// Never empty.
std::string Describe(const CronExpression& expression);

}  // namespace escapement::cron

#endif  // COMMON_CRON_CRON_EXPRESSION_H_
