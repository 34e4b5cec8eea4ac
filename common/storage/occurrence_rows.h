// The rows of one occurrence. The emitter writes them; so does the master when it emits itself
// (create, update, resume, trigger).
//
// A run of one event is one row in `events`, in the queue shard of the event's id. A larger run is
// the run record, its mark as active, and one slice for each queue shard that has one
// (SliceOfShard). If the schedule is throttled (a policy, a window, or completion on release), one
// row in `waiting` holds the run's events instead. If the schedule has on_complete or an overlap
// policy, a run of one event has a run record too. With an overlap policy all these rows are
// written only at the launch; until then the occurrence is one launch record in `checkpoints`
// (docs/time.md).
//
// Rows refer to their definition by version and carry no payload. The same occurrence always makes
// the same keys, except for the lane: an occurrence that is late when it is emitted goes to the
// catch-up lane. So every writer must have a condition that the occurrence was not emitted before:
// on emitted_to in the emitter, on planned_to elsewhere.
//
// A change of a schedule (update, pause, resume, delete) takes over the occurrences that its uid
// has not emitted yet. Its group has these conditions: planned_to, emitted_to and the state are as
// they were read, and the partition's cursor is absent. (If the cursor is present, the emitter has
// committed part of a window: try again in a moment.) The emitter's rows of a uid have the
// condition that the child's record and the state are as it saw them. So a change must rewrite or
// delete the children, or write the state.
//
// Pure.

#ifndef COMMON_STORAGE_OCCURRENCE_ROWS_H_
#define COMMON_STORAGE_OCCURRENCE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/timetable.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// An occurrence that is emitted more than this after it was due is late: it must not delay on-time
// work.
inline constexpr absl::Duration kCatchUpAfter = absl::Seconds(10);

// The facts of a definition from which rows are made.
struct OccurrenceSource {
  std::string tenant;
  std::string schedule_id;
  Uid uid;
  uint64_t version = 0;
  uint64_t event_count = 1;
  uint8_t priority = 5;
  // The definition's policy, completion and window. Absent: events are sent when they fall due.
  std::optional<storage::v1::ThrottleRecord> throttle = std::nullopt;
  bool run_kept = false;  // runs of one event have a run record too
  storage::v1::RunOverlapKind run_overlap = storage::v1::RUN_OVERLAP_KIND_ALLOW;
  absl::Duration jitter = absl::ZeroDuration();
};
OccurrenceSource SourceOf(const storage::v1::DefinitionRecord& definition);
OccurrenceSource SourceOf(const Uid& uid, const storage::v1::ChildRecord& child);
OccurrenceSource SourceOf(const Uid& uid, const storage::v1::LaunchRecord& launch);

struct EmittedOccurrence {
  std::string id;           // OccurrenceId as text
  absl::Time nominal_time;  // the instant that the schedule names
  absl::Time launch_time;   // when it is due
  bool triggered = false;   // by TriggerSchedule or BackfillSchedule
  // Begin of the delivery window, if throttled. Absent: the launch time.
  std::optional<absl::Time> window_begin = std::nullopt;
};
// An occurrence of the source's timetable. Its launch time is the nominal time plus the jitter,
// which follows from the id of the run's first event.
EmittedOccurrence ToEmitted(const OccurrenceSource& source, const cron::Timetable& timetable,
                            const cron::Occurrence& occurrence);
// The occurrence of a launch record.
EmittedOccurrence ToEmitted(const LaunchKey& key, const storage::v1::LaunchRecord& record);

// When the occurrence with this id is due: its nominal time plus the jitter.
absl::Time LaunchTimeOf(const OccurrenceSource& source, const std::string& id,
                        absl::Time nominal_time);

// The lane of a row with this priority, due at `launch_time` and emitted at `now` (store time).
uint8_t LaneFor(uint8_t priority, absl::Time launch_time, absl::Time now);

// Appends puts of the occurrence's rows to `out`. With an overlap policy and no trigger, that is
// only the launch record.
void AddOccurrenceRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                       const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out);
// The same without regard to the overlap policy, for a caller that has already decided about it.
void AddLaunchedRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                     const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out);

// The Done record of an occurrence that never had rows: skipped for `reason`.
kv::Mutation SkippedOccurrence(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                               absl::string_view reason, const kv::Layout& layout, absl::Time now);
// One Done record for `occurrences` skipped ones, from `first` to `last`: SkippedOccurrence of
// `first`, with the others counted in it.
kv::Mutation SkippedOccurrences(const OccurrenceSource& source, const EmittedOccurrence& first,
                                uint64_t occurrences, absl::Time last, absl::string_view reason,
                                const kv::Layout& layout, absl::Time now);

// The number of mutations that AddOccurrenceRows makes for one occurrence.
size_t OccurrenceRowCount(const OccurrenceSource& source, const kv::Layout& layout);

// For events emitted before a change of their schedule's policy: appends puts of rows in which
// events [first + taken, first + count) of `row` wait where the definition of `to` wants them. The
// caller deletes `row` itself. The new rows keep `due_time` and the begin of the window (the launch
// time if there was no window). Except: if the window was still open but would be over with its new
// length, it begins now.
void AddMovedRow(const OccurrenceSource& to, const storage::v1::EventRecord& row,
                 const std::string& occurrence, uint64_t first, absl::Time due_time,
                 const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out);

}  // namespace escapement

#endif  // COMMON_STORAGE_OCCURRENCE_ROWS_H_
