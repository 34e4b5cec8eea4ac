// What becomes of occurrences when a zone's rules change under a schedule.
//
// An occurrence keeps its name (civil time and fold) and may change its instant: `before` is the
// instant that the former rules gave to that name, `now` the one that the present rules give. Up to
// the frontier everything has been emitted by the former rules, and what they set before the switch
// time stays so. Everything else belongs to the present rules:
//
//   before < decided_to                 done by the former rules: not emitted again, whenever `now`
//   is else, now >= emitted_to             emitted when its window comes, like anything else else,
//   now != before                 emitted at once: its window has passed under the former rules
//   else                                its row is in the queue already
//   no `before`, now >= decided_to      emitted
//   no `before`, now < decided_to       was none when it would have been due: not emitted
//
// with decided_to = min(emitted_to, switch time). A row in the queue that the former rules set for
// the switch time or later and the present ones do not: JudgeRow.
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
  MovedZone(cron::Zone before, const cron::Zone& now, absl::Time switch_time);

  const cron::Zone& before() const { return before_; }
  // No occurrence that was to be decided by the switch has moved further than this.
  absl::Duration reach() const { return reach_; }

  // Of what was emitted up to `emitted_to` by the former rules: occurrences of the present rules
  // before ReadFrom need not be looked at for Emits, those at or after JudgeTo need not be asked
  // for.
  absl::Time ReadFrom(absl::Time emitted_to) const;
  absl::Time JudgeTo(absl::Time emitted_to) const;

  // Is this occurrence of the timetable (under the present rules) to be emitted?
  bool Emits(const cron::Timetable& now, const cron::Occurrence& occurrence,
             absl::Time emitted_to) const;

 private:
  cron::Zone before_;
  absl::Time switch_time_;
  absl::Duration reach_;
};

// The zones whose rules a switch has changed, on a machine that has the new revision.
class MovedZones {
 public:
  explicit MovedZones(const Switch& change);

  absl::Time time() const { return time_; }
  absl::Time committed() const { return committed_; }
  bool empty() const { return zones_.empty(); }
  // Null: not moved.
  const MovedZone* Find(absl::string_view zone) const;

 private:
  absl::Time time_, committed_;
  std::map<std::string, MovedZone, std::less<>> zones_;
};

enum class RowFate {
  kStays,
  kElsewhere,  // emitted anew at its new instant: the row goes without an outcome
  kNowhere,    // the present rules have no such civil time: skipped
};
// Of a row that waits in the queue. `timetable` is that of the definition; `id` and `nominal` are
// the row's.
RowFate JudgeQueuedRow(const MovedZones& moved, const cron::Timetable& timetable,
                       absl::string_view id, absl::Time nominal);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REDERIVE_H_
