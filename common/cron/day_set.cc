#include "common/cron/day_set.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/cron/field_parser.h"
#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

constexpr int64_t kLastDay = kLocalEnd / kDaySeconds - 1;

uint32_t BitsOfMonth(const std::vector<int32_t>& days, const CivilMonth& month) {
  uint32_t bits = 0;
  const int64_t first = month.first_day();
  for (auto it = std::lower_bound(days.begin(), days.end(), first);
       it != days.end() && *it < first + month.days(); ++it)
    bits |= uint32_t{1} << (*it - first + 1);
  return bits;
}

int DayOfMonth(const CivilMonth& month, int64_t day) {
  return static_cast<int>(day - month.first_day()) + 1;
}

}  // namespace

uint32_t DaySet::Of(const CivilMonth& month) const {
  uint32_t days = BitsOfMonth(spec_.dates, month);
  for (const CronExpression& rule : spec_.rules) days |= month.Matching(rule);
  for (const auto& other : spec_.others) days |= other->Of(month);
  return days & ~BitsOfMonth(spec_.except, month);
}

bool DaySet::Has(int64_t day) const {
  const CivilMonth month = CivilMonth::Of(day);
  return HasBit(Of(month), DayOfMonth(month, day));
}

std::optional<int64_t> DaySet::FirstOutside(int64_t day, int64_t days_max) const {
  const int64_t last = std::min(kLastDay, day + days_max);
  if (day > last) return std::nullopt;
  CivilMonth month = CivilMonth::Of(day);
  uint64_t outside = BitsFrom(AllDays(month.shape()) & ~Of(month), DayOfMonth(month, day));
  while (outside == 0) {
    month.ToNext();
    if (month.first_day() > last) return std::nullopt;
    outside = AllDays(month.shape()) & ~Of(month);
  }
  const int64_t found = month.first_day() + LowestBit(outside) - 1;
  return found <= last ? std::optional<int64_t>(found) : std::nullopt;
}

std::optional<int64_t> DaySet::LastOutside(int64_t day, int64_t days_max) const {
  const int64_t first = std::max<int64_t>(0, day - days_max);
  if (day < first) return std::nullopt;
  CivilMonth month = CivilMonth::Of(day);
  uint64_t outside = BitsUpTo(AllDays(month.shape()) & ~Of(month), DayOfMonth(month, day));
  while (outside == 0) {
    if (month.first_day() <= first) return std::nullopt;
    month.ToPrevious();
    outside = AllDays(month.shape()) & ~Of(month);
  }
  const int64_t found = month.first_day() + HighestBit(outside) - 1;
  return found >= first ? std::optional<int64_t>(found) : std::nullopt;
}

absl::StatusOr<CronExpression> ParseDayRule(absl::string_view text) {
  const size_t fields = std::vector<absl::string_view>(
                            absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty()))
                            .size();
  if (fields != 3 && fields != 4)
    return absl::InvalidArgumentError(
        "must have 3 or 4 fields: day-of-month month day-of-week [year]");
  return ParseCron(absl::StrCat("0 0 0 ", text, fields == 3 ? " *" : ""));
}

namespace {

// The civil times of an expression with days off.
class WorkdayTimes {
 public:
  WorkdayTimes(const CronExpression& e, const CivilRules& rules)
      : e_(e),
        exclusions_(rules.exclusions),
        days_off_(*rules.days_off),
        next_(rules.on_excluded == OnExcluded::kNext) {}

  std::optional<int64_t> FirstKept(int64_t begin, int64_t end) const {
    while (true) {
      const std::optional<int64_t> match = FirstAllowed(e_, exclusions_, begin, end);
      if (!match) return match;
      const int64_t day = *match / kDaySeconds;
      const CivilMonth month = CivilMonth::Of(day);
      const uint32_t off = days_off_.Of(month);
      if (!HasBit(off, DayOfMonth(month, day))) return match;
      const uint64_t kept = BitsFrom(month.Matching(e_) & ~off, DayOfMonth(month, day));
      begin = (month.first_day() + (kept != 0 ? LowestBit(kept) - 1 : month.days())) * kDaySeconds;
    }
  }

  std::optional<int64_t> LastKept(int64_t begin, int64_t end) const {
    while (true) {
      const std::optional<int64_t> match = LastAllowed(e_, exclusions_, begin, end);
      if (!match) return match;
      const int64_t day = *match / kDaySeconds;
      const CivilMonth month = CivilMonth::Of(day);
      const uint32_t off = days_off_.Of(month);
      if (!HasBit(off, DayOfMonth(month, day))) return match;
      const uint64_t kept = BitsUpTo(month.Matching(e_) & ~off, DayOfMonth(month, day));
      end = (month.first_day() + (kept != 0 ? HighestBit(kept) : 0)) * kDaySeconds;
    }
  }

  std::optional<int64_t> FirstMoved(int64_t begin, int64_t end) const {
    begin = std::max(begin, kLocalBegin);
    end = std::min(end, kLocalEnd);
    int64_t time = begin % kDaySeconds;
    for (int64_t from = begin / kDaySeconds; from * kDaySeconds < end; time = 0) {
      const std::optional<int64_t> day = days_off_.FirstOutside(from);
      if (!day || *day * kDaySeconds >= end) return std::nullopt;
      if (*day > from) time = 0;
      const auto [first, last] = SourcesOf(*day);
      const std::optional<int64_t> match =
          FirstAllowed(e_, exclusions_, first * kDaySeconds, kLocalEnd);
      if (!match) return std::nullopt;
      const int64_t source = *match / kDaySeconds;
      if (source <= last) {
        if (const auto found = EarliestTime(source, last, time)) {
          const int64_t moved = *day * kDaySeconds + *found;
          return moved < end ? std::optional<int64_t>(moved) : std::nullopt;
        }
        from = *day + 1;
      } else {
        // No time moves to an earlier day than this.
        from = std::max(*day + 1, next_ ? source : source - kMovedDaysMax);
      }
    }
    return std::nullopt;
  }

  std::optional<int64_t> LastMoved(int64_t begin, int64_t end) const {
    begin = std::max(begin, kLocalBegin);
    end = std::min(end, kLocalEnd);
    if (begin >= end) return std::nullopt;
    int64_t time = (end - 1) % kDaySeconds;
    for (int64_t from = (end - 1) / kDaySeconds; from >= 0; time = kDaySeconds - 1) {
      const std::optional<int64_t> day = days_off_.LastOutside(from);
      if (!day || (*day + 1) * kDaySeconds <= begin) return std::nullopt;
      if (*day < from) time = kDaySeconds - 1;
      const auto [first, last] = SourcesOf(*day);
      const std::optional<int64_t> match =
          LastAllowed(e_, exclusions_, kLocalBegin, (last + 1) * kDaySeconds);
      if (!match) return std::nullopt;
      const int64_t source = *match / kDaySeconds;
      if (source >= first) {
        if (const auto found = LatestTime(first, source, time)) {
          const int64_t moved = *day * kDaySeconds + *found;
          return moved >= begin ? std::optional<int64_t>(moved) : std::nullopt;
        }
        from = *day - 1;
      } else {
        from = std::min(*day - 1, next_ ? source + kMovedDaysMax : source);
      }
    }
    return std::nullopt;
  }

 private:
  struct Days {
    int64_t first, last;
  };

  // The days whose times are on `day`, which is no day off: itself, and the days off next to it.
  Days SourcesOf(int64_t day) const {
    if (next_) {
      const std::optional<int64_t> before = days_off_.LastOutside(day - 1, kMovedDaysMax);
      return {before ? *before + 1 : std::max<int64_t>(0, day - kMovedDaysMax), day};
    }
    const std::optional<int64_t> after = days_off_.FirstOutside(day + 1, kMovedDaysMax);
    return {day, after ? *after - 1 : std::min(kLastDay, day + kMovedDaysMax)};
  }

  // The earliest time of day at or after `time` on any of the days from `first` to `last`.
  std::optional<int64_t> EarliestTime(int64_t first, int64_t last, int64_t time) const {
    std::optional<int64_t> earliest;
    for (int64_t day = first; day <= last && earliest != time; ++day) {
      const auto match =
          FirstAllowed(e_, exclusions_, day * kDaySeconds + time, (last + 1) * kDaySeconds);
      if (!match) break;
      // It may be on a later day, and the first time of that day.
      const int64_t found = *match / kDaySeconds;
      if (found > day && time > 0) {
        day = found - 1;
        continue;
      }
      day = found;
      if (!earliest || *match % kDaySeconds < *earliest) earliest = *match % kDaySeconds;
    }
    return earliest;
  }

  // The latest one at or before `time`.
  std::optional<int64_t> LatestTime(int64_t first, int64_t last, int64_t time) const {
    std::optional<int64_t> latest;
    for (int64_t day = last; day >= first && latest != time; --day) {
      const auto match =
          LastAllowed(e_, exclusions_, first * kDaySeconds, day * kDaySeconds + time + 1);
      if (!match) break;
      const int64_t found = *match / kDaySeconds;
      if (found < day && time < kDaySeconds - 1) {
        day = found + 1;
        continue;
      }
      day = found;
      if (!latest || *match % kDaySeconds > *latest) latest = *match % kDaySeconds;
    }
    return latest;
  }

  const CronExpression& e_;
  const absl::Span<const CronExpression> exclusions_;
  const DaySet& days_off_;
  const bool next_;
};

}  // namespace

std::optional<int64_t> FirstCivil(const CronExpression& e, const CivilRules& rules, int64_t begin,
                                  int64_t end) {
  if (rules.days_off == nullptr) return FirstAllowed(e, rules.exclusions, begin, end);
  const WorkdayTimes times(e, rules);
  return rules.on_excluded == OnExcluded::kSkip ? times.FirstKept(begin, end)
                                                : times.FirstMoved(begin, end);
}

std::optional<int64_t> LastCivil(const CronExpression& e, const CivilRules& rules, int64_t begin,
                                 int64_t end) {
  if (rules.days_off == nullptr) return LastAllowed(e, rules.exclusions, begin, end);
  const WorkdayTimes times(e, rules);
  return rules.on_excluded == OnExcluded::kSkip ? times.LastKept(begin, end)
                                                : times.LastMoved(begin, end);
}

}  // namespace escapement::cron
