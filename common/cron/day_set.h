// Days that schedules leave out, such as weekends and holidays: DaySet, and the civil times of an
// expression whose days are left out or moved (FirstCivil, LastCivil).
//
// Pure. Days are counted from 1970-01-01, in the years of zone.h; times are local seconds.

#ifndef COMMON_CRON_DAY_SET_H_
#define COMMON_CRON_DAY_SET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/cron/civil_match.h"
#include "common/cron/cron_expression.h"

namespace escapement::cron {

// An occurrence moves by at most so many days.
inline constexpr int64_t kMovedDaysMax = 366;

// A set of days. Immutable; any thread.
class DaySet {
 public:
  // The set has the days of dates, rules and others, without those of except.
  struct Spec {
    std::vector<int32_t> dates;         // ascending
    std::vector<int32_t> except;        // ascending
    std::vector<CronExpression> rules;  // only their days count
    std::vector<std::shared_ptr<const DaySet>> others;
  };

  static constexpr int64_t kEver = 1'000'000;  // days

  explicit DaySet(Spec spec) : spec_(std::move(spec)) {}

  bool Has(int64_t day) const;
  // Bit d: day d of the month is in the set.
  uint32_t Of(const CivilMonth& month) const;
  // The first day at or after (or: the last one at or before) `day` that is not in the set, at most
  // `days_max` days away.
  std::optional<int64_t> FirstOutside(int64_t day, int64_t days_max = kEver) const;
  std::optional<int64_t> LastOutside(int64_t day, int64_t days_max = kEver) const;

 private:
  Spec spec_;
};

// The rule of a set: "day-of-month month day-of-week" or "day-of-month month day-of-week year".
// INVALID_ARGUMENT with the field and the reason.
absl::StatusOr<CronExpression> ParseDayRule(absl::string_view text);

// The rule for a civil time on a day off.
enum class OnExcluded {
  kSkip,      // it is left out
  kNext,      // it moves to the same time of the next day that is no day off
  kPrevious,  // it moves to the same time of the last such day before it
};

// Leaves out and moves civil times that an expression matches. Exclusions are for times as the
// expression gives them: a time that has moved is not excluded. Times that would move further than
// kMovedDaysMax are left out. Equal times are one.
struct CivilRules {
  absl::Span<const CronExpression> exclusions;
  const DaySet* days_off = nullptr;
  OnExcluded on_excluded = OnExcluded::kSkip;
};

// The first (or: last) such time in [begin, end).
std::optional<int64_t> FirstCivil(const CronExpression& expression, const CivilRules& rules,
                                  int64_t begin, int64_t end);
std::optional<int64_t> LastCivil(const CronExpression& expression, const CivilRules& rules,
                                 int64_t begin, int64_t end);

}  // namespace escapement::cron

#endif  // COMMON_CRON_DAY_SET_H_
