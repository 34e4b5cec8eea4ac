// MoveSearch: finds the occurrences that a schedule has under one of two timetables only, which
// differ in their days off and in nothing else.
//
// It looks only at the days that may differ: those that one set of days has and the other has not
// and, if occurrences move, those to which they may move from there.
//
// Pure. Work comes in steps of one day, each with at most kMovesOfDayMax occurrences.

#ifndef SERVICES_MASTER_CALENDARS_CALENDAR_MOVES_H_
#define SERVICES_MASTER_CALENDARS_CALENDAR_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/timetable.h"

namespace escapement::master {

struct OccurrenceMove {
  // At least one is set.
  std::optional<absl::Time> from = std::nullopt, to = std::nullopt;

  absl::Time first() const { return from.has_value() && (!to || *from < *to) ? *from : *to; }
};

class MoveSearch {
 public:
  // Compares the occurrences in [begin, end). Both timetables have days off.
  MoveSearch(const cron::Timetable& former, const cron::Timetable& next, absl::Time begin,
             absl::Time end);

  // Looks at the next day. False at the end.
  bool Step();
  // Occurrences that the last step has compared.
  size_t work() const { return work_; }

  // In the order of their times; at most kMovesOfScheduleMax.
  std::vector<OccurrenceMove> TakeMoves();
  bool more() const { return more_; }  // there are more moves than that

 private:
  using Days = std::pair<int64_t, int64_t>;  // the first and the last one

  void AddChangedDays(int64_t day);
  // Ends a stretch of days: an occurrence moves to the first new one at its time of day.
  void EndStretch();

  const cron::Timetable& former_;
  const cron::Timetable& next_;
  const absl::Time begin_, end_;
  std::vector<Days> days_;  // stretches to look at, in order, apart from each other
  size_t stretch_ = 0;
  int64_t day_ = 0;                                // in the stretch
  std::vector<cron::Occurrence> removed_, added_;  // in the stretch
  std::vector<OccurrenceMove> moves_;
  size_t work_ = 0;
  bool more_ = false;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_CALENDAR_MOVES_H_
