// Bits of masks of values. Pure.

#ifndef COMMON_CRON_FIELD_PARSER_H_
#define COMMON_CRON_FIELD_PARSER_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace escapement::cron {

// `mask` must not be 0.
constexpr int LowestBit(uint64_t mask) { return std::countr_zero(mask); }
constexpr int HighestBit(uint64_t mask) { return 63 - std::countl_zero(mask); }

// The bits at or above (or: at or below) `bit`.
constexpr uint64_t BitsFrom(uint64_t mask, int bit) {
  return bit > 63 ? 0 : mask & (~uint64_t{0} << bit);
}
constexpr uint64_t BitsUpTo(uint64_t mask, int bit) {
  return bit < 0 ? 0 : mask & (~uint64_t{0} >> (63 - bit));
}

constexpr bool HasBit(uint64_t mask, int bit) { return ((mask >> bit) & 1) != 0; }

// Parses one field of a cron expression into sets of values. cron_expression.h has the language.
//
// Pure. It allocates only the message of an error.

enum class FieldKind { kSecond, kMinute, kHour, kDayOfMonth, kMonth, kDayOfWeek, kYear };

struct ParsedField {
  std::array<uint64_t, 4> values = {};  // bit v; for years bit v - 1970; Sunday is bit 0 only
  bool star = false;                    // exactly `*` or `?`
  bool rhythmic = false;                // contains `*` or `/`
  bool plus = false;                    // began with `+`

  // The items of CronExpression that are not values.
  uint32_t days_before_last = 0, weekdays_near_day = 0, weekdays_near_last = 0;
  uint64_t weekdays_of_month = 0;
};

// `field` must be fresh. INVALID_ARGUMENT with the field and the reason.
absl::Status ParseField(FieldKind kind, absl::string_view text, ParsedField& field);

}  // namespace escapement::cron

#endif  // COMMON_CRON_FIELD_PARSER_H_
