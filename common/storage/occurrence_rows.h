// The rows of one occurrence: what the emitter writes, and the master where it emits itself
// (create, update, resume, trigger).
//
// n = 1: one row in `events`, in the queue shard of the event's id. n > 1: the run record, its mark
// as active, and one slice for each queue shard that has one (SliceOfShard). Of a throttled
// schedule (a policy, a window, or completion on release) the run's events are one row in `waiting`
// instead. A schedule that wants to hear of the end of its runs, or has an overlap policy, has the
// run record for n = 1 too. With an overlap policy all these are written only at launch: until then
// the occurrence is one launch record in `checkpoints` (docs/time.md). Rows refer to their
// definition by version and carry no payload. The same occurrence always makes the same keys but
// for the lane: what is late when it is emitted goes to the catch-up lane. So whoever emits decides
// by condition that it has not been emitted yet (the emitter: emitted_to; others: planned_to).
//
// A change of a schedule (update, pause, resume, delete) takes over what its uid still owes. Its
// group has the conditions: planned_to, emitted_to and the state as they were read, and that the
// partition's cursor is absent (present: the emitter has committed part of a window; try again in a
// moment). The emitter's rows of a uid have the conditions "the child's record and the state are as
// I saw them", so a change must rewrite or delete the children, or write the state.
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

// What is due longer than this when it is emitted is late: it must not stand in the way of on-time
// work.
inline constexpr absl::Duration kCatchUpAfter = absl::Seconds(10);

// The facts of a definition that rows are made from.
struct OccurrenceSource {
  std::string tenant;
  std::string schedule_id;
  Uid uid;
  uint64_t version = 0;
  uint64_t event_count = 1;
  uint8_t priority = 5;
  // As of the definition: policy, completion, window. Absent: events go out as they fall due.
  std::optional<storage::v1::ThrottleRecord> throttle = std::nullopt;
  bool run_kept = false;  // there is a run record also for n = 1
  storage::v1::RunOverlapKind run_overlap = storage::v1::RUN_OVERLAP_KIND_ALLOW;
  absl::Duration jitter = absl::ZeroDuration();
};
OccurrenceSource SourceOf(const storage::v1::DefinitionRecord& definition);
OccurrenceSource SourceOf(const Uid& uid, const storage::v1::ChildRecord& child);
OccurrenceSource SourceOf(const Uid& uid, const storage::v1::LaunchRecord& launch);

struct EmittedOccurrence {
  std::string id;           // cron/occurrence_id.h
  absl::Time nominal_time;  // what the schedule says
  absl::Time launch_time;   // when it is due
  bool triggered = false;   // by TriggerSchedule or BackfillSchedule
  // Of throttled ones: when the delivery window begins. Absent: at the launch time.
  std::optional<absl::Time> window_begin = std::nullopt;
};
// An occurrence of the source's timetable: its launch time is the nominal one plus the jitter, a
// function of the id of the run's first event.
EmittedOccurrence ToEmitted(const OccurrenceSource& source, const cron::Timetable& timetable,
                            const cron::Occurrence& occurrence);
// The one that a launch record stands for.
EmittedOccurrence ToEmitted(const LaunchKey& key, const storage::v1::LaunchRecord& record);

// When the occurrence of this identity is due: its nominal time plus the jitter.
absl::Time LaunchTimeOf(const OccurrenceSource& source, const std::string& id,
                        absl::Time nominal_time);

// The lane of a row of this priority that is due at `launch_time` and emitted at `now` (store
// time).
uint8_t LaneFor(uint8_t priority, absl::Time launch_time, absl::Time now);

// Appends the rows' mutations to `out`. With an overlap policy that is the launch record only (not
// of triggered ones).
void AddOccurrenceRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                       const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>* out);
// The same whatever the overlap policy: for whoever has decided about it.
void AddLaunchedRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                     const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>* out);

// The outcome of an occurrence that never had rows: its Done record, skipped for `reason`.
kv::Mutation SkippedOccurrence(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                               absl::string_view reason, const kv::Layout& layout, absl::Time now);
// The record that stands for `occurrences` skipped ones, from `first` to `last`: SkippedOccurrence
// of `first`, with the others counted in.
kv::Mutation SkippedOccurrences(const OccurrenceSource& source, const EmittedOccurrence& first,
                                uint64_t occurrences, absl::Time last, absl::string_view reason,
                                const kv::Layout& layout, absl::Time now);

// How many mutations that makes of one occurrence.
size_t OccurrenceRowCount(const OccurrenceSource& source, const kv::Layout& layout);

// Appends puts of the row(s) by which events [first + taken, first + count) of `row` wait where the
// definition of `to` wants them: when a schedule's policy has changed after they were emitted. The
// caller deletes the row itself. `due_time` is the row's own, and so is the begin of its window
// (the launch time if it had none), but where its new length alone would end it: it begins now
// then.
void AddMovedRow(const OccurrenceSource& to, const storage::v1::EventRecord& row,
                 const std::string& occurrence, uint64_t first, absl::Time due_time,
                 const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>* out);

}  // namespace escapement

#endif  // COMMON_STORAGE_OCCURRENCE_ROWS_H_
