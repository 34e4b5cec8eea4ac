#include "services/master/schedules/changes/upcoming.h"

#include <algorithm>
#include <utility>

namespace escapement::master {

Upcoming UpcomingOf(const cron::Timetable& timetable, absl::Time from, size_t max,
                    size_t candidates_max) {
  Upcoming upcoming;
  if (timetable.calendar() || timetable.spec().exclusions.empty()) {
    upcoming.occurrences = timetable.Enumerate(from, absl::InfiniteFuture(), max);
    return upcoming;
  }
  cron::TimetableSpec plain = timetable.spec();
  plain.exclusions.clear();
  const cron::Timetable unrestricted(std::move(plain));
  size_t looked = 0;
  while (upcoming.occurrences.size() < max) {
    if (looked >= candidates_max) {
      upcoming.complete = false;
      break;
    }
    const size_t wanted = max - upcoming.occurrences.size();
    const std::vector<cron::Occurrence> candidates =
        unrestricted.Enumerate(from, absl::InfiniteFuture(), std::clamp<size_t>(wanted, 64, 1000));
    if (candidates.empty()) break;
    looked += candidates.size();
    // A timetable that ends with the candidates does not search beyond them.
    cron::TimetableSpec window = timetable.spec();
    window.end = candidates.back().instant + absl::Microseconds(1);
    const std::vector<cron::Occurrence> kept =
        cron::Timetable(std::move(window)).Enumerate(from, absl::InfiniteFuture(), wanted);
    upcoming.occurrences.insert(upcoming.occurrences.end(), kept.begin(), kept.end());
    from = candidates.back().instant + absl::Microseconds(1);
  }
  return upcoming;
}

}  // namespace escapement::master
