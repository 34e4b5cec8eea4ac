#include "services/master/calendars/calendar_moves.h"

#include <algorithm>
#include <iterator>

#include "absl/time/civil_time.h"
#include "common/cron/civil_match.h"
#include "common/cron/day_set.h"
#include "common/cron/zone.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

constexpr absl::CivilDay kDayZero(1970, 1, 1);
constexpr int64_t kDaysEnd = cron::kLocalEnd / cron::kDaySeconds;

bool Earlier(const cron::Occurrence& a, const cron::Occurrence& b) { return a.instant < b.instant; }

int64_t TimeOfDay(const cron::Occurrence& occurrence) {
  return occurrence.civil - absl::CivilSecond(absl::CivilDay(occurrence.civil));
}

}  // namespace

MoveSearch::MoveSearch(const cron::Timetable& former, const cron::Timetable& next, absl::Time begin,
                       absl::Time end)
    : former_(former), next_(next), begin_(begin), end_(end) {
  const absl::TimeZone& zone = former.spec().zone.time_zone();
  const int64_t first = absl::ToCivilDay(begin, zone) - kDayZero;
  const int64_t last = absl::ToCivilDay(end, zone) - kDayZero;
  const int64_t around = former.spec().moves_days() ? cron::kMovedDaysMax : 0;
  const int64_t from = std::max<int64_t>(first - around, 0);
  const int64_t to = std::min(last + around, kDaysEnd - 1);
  for (cron::CivilMonth month = cron::CivilMonth::Of(from); month.first_day() <= to;
       month.ToNext()) {
    const uint32_t differ = former.spec().days_off->Of(month) ^ next.spec().days_off->Of(month);
    for (int d = 1; d <= month.days(); ++d) {
      const int64_t day = month.first_day() + d - 1;
      if ((differ >> d & 1) != 0 && day >= from && day <= to) AddChangedDays(day);
    }
  }
  for (auto& [begins, ends] : days_) {
    begins = std::max(begins, first);
    ends = std::min(ends, last);
  }
  std::erase_if(days_, [](const Days& days) { return days.first > days.second; });
  if (!days_.empty()) day_ = days_[0].first;
}

void MoveSearch::AddChangedDays(int64_t day) {
  Days days = {day, day};
  for (const cron::Timetable* timetable : {&former_, &next_}) {
    const cron::DaySet& off = *timetable->spec().days_off;
    if (timetable->spec().on_excluded == cron::OnExcluded::kNext)
      days.second =
          std::max(days.second, off.FirstOutside(day, cron::kMovedDaysMax).value_or(kDaysEnd));
    if (timetable->spec().on_excluded == cron::OnExcluded::kPrevious)
      days.first = std::min(days.first, off.LastOutside(day, cron::kMovedDaysMax).value_or(0));
  }
  days.first = std::max(days.first, day - cron::kMovedDaysMax);
  days.second = std::min(days.second, day + cron::kMovedDaysMax);
  // A stretch may reach back over former ones.
  while (!days_.empty() && days_.back().second >= days.first - 1) {
    days.first = std::min(days.first, days_.back().first);
    days.second = std::max(days.second, days_.back().second);
    days_.pop_back();
  }
  days_.push_back(days);
}

bool MoveSearch::Step() {
  if (more_ || stretch_ == days_.size()) return false;
  const absl::TimeZone& zone = former_.spec().zone.time_zone();
  const absl::Time begin = std::max(begin_, absl::FromCivil(kDayZero + day_, zone));
  const absl::Time end = std::min(end_, absl::FromCivil(kDayZero + day_ + 1, zone));
  const auto former = former_.Enumerate(begin, end, kMovesOfDayMax);
  const auto next = next_.Enumerate(begin, end, kMovesOfDayMax);
  work_ = former.size() + next.size();
  std::set_difference(former.begin(), former.end(), next.begin(), next.end(),
                      std::back_inserter(removed_), Earlier);
  std::set_difference(next.begin(), next.end(), former.begin(), former.end(),
                      std::back_inserter(added_), Earlier);
  const bool many = std::max(former.size(), next.size()) == kMovesOfDayMax ||
                    removed_.size() + added_.size() > 2 * kMovesOfScheduleMax;
  if (many || ++day_ > days_[stretch_].second) {
    EndStretch();
    if (++stretch_ < days_.size()) day_ = days_[stretch_].first;
  }
  more_ = more_ || many;
  return !more_ && stretch_ < days_.size();
}

void MoveSearch::EndStretch() {
  const bool moves = former_.spec().moves_days();
  std::vector<bool> taken(added_.size(), false);
  for (const cron::Occurrence& removed : removed_) {
    OccurrenceMove move{.from = removed.instant};
    for (size_t i = 0; moves && i < added_.size() && !move.to.has_value(); ++i) {
      if (taken[i] || TimeOfDay(added_[i]) != TimeOfDay(removed)) continue;
      taken[i] = true;
      move.to = added_[i].instant;
    }
    moves_.push_back(move);
  }
  for (size_t i = 0; i < added_.size(); ++i) {
    if (!taken[i]) moves_.push_back({.to = added_[i].instant});
  }
  removed_.clear();
  added_.clear();
  if (moves_.size() <= kMovesOfScheduleMax) return;
  more_ = true;
}

std::vector<OccurrenceMove> MoveSearch::TakeMoves() {
  std::stable_sort(
      moves_.begin(), moves_.end(),
      [](const OccurrenceMove& a, const OccurrenceMove& b) { return a.first() < b.first(); });
  if (moves_.size() > kMovesOfScheduleMax) moves_.resize(kMovesOfScheduleMax);
  return std::move(moves_);
}

}  // namespace escapement::master
