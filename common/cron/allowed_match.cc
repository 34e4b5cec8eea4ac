#include "common/cron/allowed_match.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/cron/bit_range.h"
#include "common/cron/civil_match.h"
#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

constexpr size_t kSetsKept = 64;  // more sets are not kept: their answers are computed again

using Exclusions = absl::InlinedVector<const CronExpression*, 8>;

// One search, in one direction of time.
class AllowedSearch {
 public:
  AllowedSearch(const CronExpression& e, absl::Span<const CronExpression> exclusions, bool forward)
      : e_(e), exclusions_(exclusions), forward_(forward) {
    for (const CronExpression& x : exclusions) {
      covers_.push_back((e.hours & ~x.hours) == 0 && (e.minutes & ~x.minutes) == 0 &&
                        (e.seconds & ~x.seconds) == 0);
    }
  }

  // The nearest allowed local second at or after (or: at or before) `from`, on no day after
  // (before) the day of `to`. Both must be in the years of zone.h.
  std::optional<int64_t> Nearest(int64_t from, int64_t to) {
    const int64_t first_day = from / kDaySeconds, last_day = to / kDaySeconds;
    CivilMonth month = CivilMonth::Of(first_day);
    uint32_t days = static_cast<uint32_t>(
        Onward(month.Matching(e_), static_cast<int>(first_day - month.first_day()) + 1));
    bool on_first_day = true;
    while (true) {
      LookAt(month, days);
      while (days != 0) {
        const int d = Next(days);
        const int64_t day = month.first_day() + d - 1;
        const Exclusions active = ActiveOn(d);
        const bool partly = on_first_day && day == first_day;
        const int time = partly ? TimeFrom(active, static_cast<int>(from % kDaySeconds))
                                : TimeOfWholeDay(active);
        if (time >= 0) return day * kDaySeconds + time;
        days &= partly ? ~(uint32_t{1} << d) : ~SameDays(d);
      }
      on_first_day = false;
      days = forward_ ? month.ToNextMatching(e_, last_day + 1)
                      : month.ToPreviousMatching(e_, last_day);
      if (days == 0) return std::nullopt;
    }
  }

 private:
  int Next(uint64_t mask) const { return forward_ ? LowestBit(mask) : HighestBit(mask); }
  uint64_t Onward(uint64_t mask, int bit) const {
    return forward_ ? BitsFrom(mask, bit) : BitsUpTo(mask, bit);
  }

  // Removes from `days` the days on which one exclusion leaves no time.
  void LookAt(const CivilMonth& month, uint32_t& days) {
    if (days == 0) return;
    excluded_days_.clear();
    for (size_t i = 0; i < exclusions_.size(); ++i) {
      excluded_days_.push_back(month.Matching(exclusions_[i]));
      if (covers_[i]) days &= ~excluded_days_[i];
    }
  }

  Exclusions ActiveOn(int d) const {
    Exclusions active;
    for (size_t i = 0; i < exclusions_.size(); ++i) {
      if (HasBit(excluded_days_[i], d)) active.push_back(&exclusions_[i]);
    }
    return active;
  }

  // The days of the month that the same exclusions match as day d.
  uint32_t SameDays(int d) const {
    uint32_t same = ~uint32_t{0};
    for (const uint32_t days : excluded_days_) same &= HasBit(days, d) ? days : ~days;
    return same;
  }

  int TimeOfWholeDay(const Exclusions& active) {
    for (const auto& [set, time] : whole_days_) {
      if (set == active) return time;
    }
    const int time = TimeFrom(active, forward_ ? 0 : kDaySeconds - 1);
    if (whole_days_.size() < kSetsKept) whole_days_.emplace_back(active, time);
    return time;
  }

  // The nearest time of day that none of `active` matches; -1 if there is none.
  int TimeFrom(const Exclusions& active, int from) const {
    const int hour0 = from / 3600;
    for (uint64_t hours = Onward(e_.hours, hour0); hours != 0;) {
      const int h = Next(hours);
      Exclusions in_hour;
      uint64_t same = ~uint64_t{0};
      for (const CronExpression* x : active) {
        const bool has = HasBit(x->hours, h);
        same &= has ? uint64_t{x->hours} : ~uint64_t{x->hours};
        if (has) in_hour.push_back(x);
      }
      const int in = MinuteSecondFrom(in_hour, h == hour0 ? from % 3600 : forward_ ? 0 : 3599);
      if (in >= 0) return h * 3600 + in;
      hours &= h == hour0 ? ~(uint64_t{1} << h) : ~same;
    }
    return -1;
  }

  // The same within an hour.
  int MinuteSecondFrom(const Exclusions& active, int from) const {
    const int minute0 = from / 60;
    for (uint64_t minutes = Onward(e_.minutes, minute0); minutes != 0;) {
      const int m = Next(minutes);
      uint64_t same = ~uint64_t{0};
      uint64_t seconds = m == minute0 ? Onward(e_.seconds, from % 60) : e_.seconds;
      for (const CronExpression* x : active) {
        const bool has = HasBit(x->minutes, m);
        same &= has ? x->minutes : ~x->minutes;
        if (has) seconds &= ~x->seconds;
      }
      if (seconds != 0) return m * 60 + Next(seconds);
      minutes &= m == minute0 ? ~(uint64_t{1} << m) : ~same;
    }
    return -1;
  }

  const CronExpression& e_;
  const absl::Span<const CronExpression> exclusions_;
  const bool forward_;
  absl::InlinedVector<bool, 8> covers_;             // the exclusion matches all times of day of e_
  absl::InlinedVector<uint32_t, 8> excluded_days_;  // for the present month, in the order of
                                                    // exclusions_
  std::vector<std::pair<Exclusions, int>> whole_days_;
};

bool Excluded(absl::Span<const CronExpression> exclusions, int64_t local) {
  return std::any_of(exclusions.begin(), exclusions.end(),
                     [local](const CronExpression& x) { return Matches(x, local); });
}

}  // namespace

std::optional<int64_t> FirstAllowed(const CronExpression& e,
                                    absl::Span<const CronExpression> exclusions, int64_t begin,
                                    int64_t end) {
  const std::optional<int64_t> match = FirstMatch(e, begin, end);
  if (!match || exclusions.empty() || !Excluded(exclusions, *match)) return match;
  const auto found =
      AllowedSearch(e, exclusions, true).Nearest(*match, std::min(end, kLocalEnd) - 1);
  return found && *found < end ? found : std::nullopt;
}

std::optional<int64_t> LastAllowed(const CronExpression& e,
                                   absl::Span<const CronExpression> exclusions, int64_t begin,
                                   int64_t end) {
  const std::optional<int64_t> match = LastMatch(e, begin, end);
  if (!match || exclusions.empty() || !Excluded(exclusions, *match)) return match;
  const auto found =
      AllowedSearch(e, exclusions, false).Nearest(*match, std::max(begin, kLocalBegin));
  return found && *found >= begin ? found : std::nullopt;
}

}  // namespace escapement::cron
