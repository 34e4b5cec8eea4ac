// ChildEvaluator: which occurrences the children of one window [begin, end) emit.
//
// The index proposes, the evaluator decides: of several children that propose one occurrence of a
// cron expression only the one at its canonical place emits it. Neighbours in the index often share
// their expression, so timetables are kept with their occurrences in the window (at most
// kWindowTimetablesMax).
//
// Pure. Threads: one.

#ifndef SERVICES_EMITTER_EMISSION_CHILD_EVALUATOR_H_
#define SERVICES_EMITTER_EMISSION_CHILD_EVALUATOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cron/launch_expression.h"
#include "common/cron/timetable.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {

struct ChildOccurrences {
  // In order. With changed rules some may be before the window, or before the child's `from`.
  std::vector<EmittedOccurrence> occurrences;
  // Only for an interval: its first instant after the firings. It is at or after `end` unless `max`
  // was reached.
  std::optional<absl::Time> next;
  // When the child fires, its start and end left aside; of a list of instants only its own. Valid
  // until the evaluator's next call.
  const cron::Timetable* timetable = nullptr;
};

class ChildEvaluator {
 public:
  // `rules` null: no rules have changed.
  ChildEvaluator(absl::Time begin, absl::Time end,
                 std::shared_ptr<const RulesChange> rules = nullptr)
      : begin_(begin), end_(end), rules_(std::move(rules)) {}

  // Those at or after the child's `from` whose canonical place is its own. DATA_LOSS if the record
  // cannot be read.
  absl::StatusOr<ChildOccurrences> OfCalendar(const ChildKey& key,
                                              const storage::v1::ChildRecord& record,
                                              const OccurrenceSource& source);
  // Those of an interval from the key's instant to `end`, the first `max` of them; of a list its
  // instant.
  absl::StatusOr<ChildOccurrences> OfInstant(const InstantChildKey& key,
                                             const storage::v1::ChildRecord& record,
                                             const OccurrenceSource& source, size_t max);

 private:
  struct Firing {
    cron::Occurrence occurrence;
    std::string id;
    cron::Place place;
    std::optional<absl::Time> before;  // by the former rules; set where it is judged by
  };
  struct Calendar {
    cron::Timetable timetable;                 // without start and end
    std::vector<Firing> firings;               // in the window
    const tzdata::MovedZone* moved = nullptr;  // if its firings are to be judged
  };
  // True if this child has to emit the firing, its place aside.
  bool Owed(const Calendar& calendar, const Firing& firing,
            const storage::v1::ChildRecord& record) const;
  absl::StatusOr<const Calendar*> CalendarOf(const std::string& zone,
                                             const storage::v1::ChildRecord& record);
  absl::StatusOr<const Calendar*> FindCalendar(const std::string& zone,
                                               const storage::v1::ChildRecord& record);

  const absl::Time begin_, end_;
  const std::shared_ptr<const RulesChange> rules_;
  absl::flat_hash_map<std::string, std::unique_ptr<Calendar>> calendars_;  // never iterated
  std::string calendar_key_;
  // The calendar that was found last, and of what: mostly the next child is of the same. Only for a
  // child without a timing. Null: none.
  const Calendar* last_ = nullptr;
  std::string last_zone_, last_cron_;
  std::optional<cron::Timetable> instants_;
};

// A child's timetable as bytes, without its start and end. Two children with equal bytes fire at
// the same instants, except for lists.
void AppendTimetableKey(const storage::v1::ChildRecord& record, const std::string& zone,
                        std::string& out);

// `timetable` with the start and end that a child has.
cron::Timetable Bounded(const cron::Timetable& timetable, const storage::v1::ChildRecord& record);

// True if the child stands for one instant of a list.
bool OfList(const storage::v1::ChildRecord& record);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_CHILD_EVALUATOR_H_
