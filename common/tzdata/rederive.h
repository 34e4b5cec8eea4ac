// Decides which occurrences to emit after a zone's rules have changed.
//
// An occurrence keeps its name (civil time and fold) and may change its instant. `before` is the
// instant that the former rules give to the name, `now` the one that the present rules give.
// Occurrences that the former rules emitted (up to emitted_to) are not changed: they fire at their
// former instant. All others follow the present rules:
//
//   before < emitted_to             done by the former rules: not emitted again, whatever `now` is
//   else, now >= emitted_to         emitted in its window, like any other
//   else                            emitted at once: its window has passed under the former rules
//   no `before`, now >= emitted_to  emitted
//   no `before`, now < emitted_to   it did not exist when it would have been due: not emitted
//
// Pure.

#ifndef COMMON_TZDATA_REDERIVE_H_
#define COMMON_TZDATA_REDERIVE_H_

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::tzdata {

// The instant of the calendar occurrence with this name, if the timetable has it.
std::optional<absl::Time> InstantOf(const cron::Timetable& timetable, absl::CivilSecond civil,
                                    int fold);

// One zone whose rules have changed.
class MovedZone {
 public:
  // `time`: the time of the switch.
  MovedZone(cron::Zone before, const cron::Zone& now, absl::Time time);

  const cron::Zone& before() const { return before_; }

  // The former rules have emitted everything up to `emitted_to`. Then Emits is false for every
  // occurrence of the present rules before ReadFrom, and true for every one at or after JudgeTo. So
  // callers need Emits only between the two.
  absl::Time ReadFrom(absl::Time emitted_to) const;
  absl::Time JudgeTo(absl::Time emitted_to) const;

  // The instant of this occurrence under the former rules, if they have it.
  std::optional<absl::Time> Before(const cron::Timetable& now,
                                   const cron::Occurrence& occurrence) const;
  // True if the occurrence must be emitted. It was at `before` under the former rules, and is at
  // `instant` under the present ones.
  bool Emits(const std::optional<absl::Time>& before, absl::Time instant,
             absl::Time emitted_to) const;

 private:
  cron::Zone before_;
  absl::Duration reach_;  // the furthest that an occurrence near the switch can move
};

// The zones whose rules a switch has changed, on a machine that has the new revision.
class MovedZones {
 public:
  explicit MovedZones(const Switch& change);

  absl::Time time() const { return time_; }  // time of the switch
  bool empty() const { return zones_.empty(); }
  // The latest JudgeTo of all these zones.
  absl::Time JudgeTo(absl::Time emitted_to) const;
  // Null if the zone's rules did not change.
  const MovedZone* Find(absl::string_view zone) const;

 private:
  absl::Time time_;
  std::map<std::string, MovedZone, std::less<>> zones_;
};

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REDERIVE_H_
