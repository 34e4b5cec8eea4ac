// What becomes of occurrences when a zone's rules change under a schedule.
//
// An occurrence keeps its name (civil time and fold) and may change its instant: `before` is the
// instant that the former rules gave to that name, `now` the one that the present rules give. What
// the former rules have emitted (up to emitted_to) stays so: it fires at its former instant.
// Everything else belongs to the present rules:
//
//   before < emitted_to         done by the former rules: not emitted again, whenever `now` is
//   else, now >= emitted_to     emitted when its window comes, like anything else
//   else                        emitted at once: its window has passed under the former rules
//   no `before`, now >= emitted_to   emitted
//   no `before`, now < emitted_to    was none when it would have been due: not emitted
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

// When the calendar occurrence of that name is, if the timetable has it.
std::optional<absl::Time> InstantOf(const cron::Timetable& timetable, absl::CivilSecond civil,
                                    int fold);

// Of one zone.
class MovedZone {
 public:
  // `time`: of the switch.
  MovedZone(cron::Zone before, const cron::Zone& now, absl::Time time);

  const cron::Zone& before() const { return before_; }

  // Of what was emitted up to `emitted_to` by the former rules: occurrences of the present rules
  // before ReadFrom need not be looked at for Emits, those at or after JudgeTo need not be asked
  // for.
  absl::Time ReadFrom(absl::Time emitted_to) const;
  absl::Time JudgeTo(absl::Time emitted_to) const;

  // When the former rules had this occurrence of the timetable, if at all.
  std::optional<absl::Time> Before(const cron::Timetable& now,
                                   const cron::Occurrence& occurrence) const;
  // Is the occurrence that was at `before` and is at `instant` by the present rules to be emitted?
  bool Emits(const std::optional<absl::Time>& before, absl::Time instant,
             absl::Time emitted_to) const;

 private:
  cron::Zone before_;
  absl::Duration reach_;  // no occurrence about the time of the switch has moved further
};

// The zones whose rules a switch has changed, on a machine that has the new revision.
class MovedZones {
 public:
  explicit MovedZones(const Switch& change);

  absl::Time time() const { return time_; }  // of the switch
  bool empty() const { return zones_.empty(); }
  // As of the zone for which it is latest.
  absl::Time JudgeTo(absl::Time emitted_to) const;
  // Null: not moved.
  const MovedZone* Find(absl::string_view zone) const;

 private:
  absl::Time time_;
  std::map<std::string, MovedZone, std::less<>> zones_;
};

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REDERIVE_H_
