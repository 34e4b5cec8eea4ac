#include "common/storage/occurrence_rows.h"

#include <algorithm>
#include <utility>

#include "common/base/message_writer.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {
namespace {

using kv::Put;

// The throttle of a row. If it has a window, the window begins at `window_begin`.
storage::v1::ThrottleRecord ThrottleOf(const OccurrenceSource& source, absl::Time window_begin) {
  storage::v1::ThrottleRecord throttle = *source.throttle;
  if (!throttle.has_window()) return throttle;
  throttle.set_window_begin_micros(ToMicros(window_begin));
  if (throttle.window().even()) throttle.set_pace_count(source.event_count);
  return throttle;
}

// The window keeps its begin. Except: if the window was still open but would be over with its new
// length, it begins now.
absl::Time MovedWindowBegin(const OccurrenceSource& to, const storage::v1::EventRecord& row,
                            absl::Time now) {
  const storage::v1::ThrottleRecord& former = row.throttle();
  const absl::Time begin =
      FromMicros(former.has_window() ? former.window_begin_micros() : row.launch_time_micros());
  const bool over =
      former.has_window() && begin + absl::Microseconds(former.window().duration_micros()) <= now;
  const auto duration = absl::Microseconds(to.throttle->window().duration_micros());
  return over || begin + duration > now ? begin : now;
}

// The facts that definitions state, and that children and launch records repeat.
template <typename Record>
OccurrenceSource SourceOfFacts(const Uid& uid, const Record& record) {
  OccurrenceSource source;
  source.tenant = record.tenant();
  source.schedule_id = record.schedule_id();
  source.uid = uid;
  source.version = record.version();
  source.event_count = std::max<uint64_t>(record.event_count(), 1);
  source.priority = static_cast<uint8_t>(std::min<uint32_t>(record.priority(), kLaneRetry - 1));
  if (record.has_throttle()) source.throttle = record.throttle();
  source.run_overlap = record.run_overlap();
  return source;
}

// In [0, jitter]. Uniform over ids, because they are hashes in hexadecimal.
absl::Duration JitterOf(const std::string& event_id, absl::Duration jitter) {
  uint64_t high = 0;
  for (const char c : event_id.substr(0, 15))
    high = high * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  return absl::Microseconds(
      static_cast<int64_t>(high % (static_cast<uint64_t>(ToInt64Microseconds(jitter)) + 1)));
}

void AddLaunch(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
               const kv::Layout& layout, std::vector<kv::Mutation>& out) {
  storage::v1::LaunchRecord record;
  record.set_tenant(source.tenant);
  record.set_schedule_id(source.schedule_id);
  record.set_version(source.version);
  record.set_event_count(source.event_count);
  record.set_priority(source.priority);
  if (source.throttle.has_value()) *record.mutable_throttle() = *source.throttle;
  record.set_nominal_time_micros(ToMicros(occurrence.nominal_time));
  record.set_run_overlap(source.run_overlap);
  const LaunchKey key = {PartitionOf(source.uid, layout.partitions), occurrence.launch_time,
                         source.uid, occurrence.id};
  out.push_back(
      Put(kv::ColumnFamily::kCheckpoints, EncodeLaunchKey(key), record.SerializeAsString()));
}

bool WaitsForLaunch(const OccurrenceSource& source, const EmittedOccurrence& occurrence) {
  return source.run_overlap != storage::v1::RUN_OVERLAP_KIND_ALLOW && !occurrence.triggered;
}

// All events of the run wait as one row.
void AddWaiting(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out) {
  storage::v1::EventRecord record;
  record.set_tenant(source.tenant);
  record.set_version(source.version);
  record.set_count(source.event_count);
  record.set_run_count(source.event_count);
  record.set_nominal_time_micros(ToMicros(occurrence.nominal_time));
  record.set_launch_time_micros(ToMicros(occurrence.launch_time));
  record.set_triggered(occurrence.triggered);
  if (occurrence.triggered) record.set_trigger_time_micros(ToMicros(now));
  record.set_run_kept(source.run_kept);
  record.set_priority(source.priority);
  *record.mutable_throttle() =
      ThrottleOf(source, occurrence.window_begin.value_or(occurrence.launch_time));
  const WaitingKey key = WaitingKeyOf(record, source.uid, occurrence.id, /*first=*/0,
                                      occurrence.launch_time, layout.policy_shards);
  out.push_back(Put(kv::ColumnFamily::kWaiting, EncodeWaitingKey(key), record.SerializeAsString()));
}

// Bytes of a slice's record beside the tenant's name: most numbers are small, times have 8 bytes.
constexpr size_t kSliceBytes = 40;

void AddSlice(const OccurrenceSource& source, const EmittedOccurrence& occurrence, absl::Time now,
              uint16_t shard, const IndexSlice& slice, std::vector<kv::Mutation>& out) {
  EventKey key;
  key.shard = shard;
  key.lane = LaneFor(source.priority, occurrence.launch_time, now);
  key.due_time = occurrence.launch_time;
  key.uid = source.uid;
  key.occurrence = occurrence.id;
  key.first = slice.first;
  const auto micros = [](absl::Time time) { return static_cast<uint64_t>(ToMicros(time)); };
  using Row = storage::v1::EventRecord;
  MessageWriter row(kSliceBytes + source.tenant.size());
  row.Bytes(Row::kTenantFieldNumber, source.tenant)
      .Number(Row::kVersionFieldNumber, source.version)
      .Number(Row::kCountFieldNumber, slice.count)
      .Number(Row::kRunCountFieldNumber, source.event_count)
      .Number(Row::kNominalTimeMicrosFieldNumber, micros(occurrence.nominal_time))
      .Number(Row::kLaunchTimeMicrosFieldNumber, micros(occurrence.launch_time))
      .Number(Row::kTriggeredFieldNumber, occurrence.triggered ? 1 : 0)
      .Number(Row::kRunKeptFieldNumber, source.run_kept ? 1 : 0)
      .Number(Row::kTriggerTimeMicrosFieldNumber, occurrence.triggered ? micros(now) : 0);
  out.push_back(Put(kv::ColumnFamily::kEvents, EncodeEventKey(key), row.Take()));
}

void AddRun(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
            const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out) {
  storage::v1::RunRecord record;
  record.set_tenant(source.tenant);
  record.set_schedule_id(source.schedule_id);
  record.set_version(source.version);
  record.set_event_count(source.event_count);
  record.set_nominal_time_micros(ToMicros(occurrence.nominal_time));
  record.set_emit_time_micros(ToMicros(now));
  record.set_has_on_complete(source.run_kept);
  if (source.event_count > 1 && source.throttle.has_value() && source.throttle->has_window()) {
    const storage::v1::WindowRecord& window = source.throttle->window();
    const int64_t open = ToMicros(occurrence.window_begin.value_or(occurrence.launch_time));
    record.set_window_open_micros(open);
    record.set_window_close_micros(open + window.duration_micros());
    record.set_window_even(window.even());
  }
  const RunKey run{source.uid, occurrence.id};
  out.push_back(Put(kv::ColumnFamily::kRuns, EncodeRunKey(run), record.SerializeAsString()));
  out.push_back(
      Put(kv::ColumnFamily::kCheckpoints,
          ActiveRunKey(PartitionOf(source.uid, layout.partitions), run.uid, run.occurrence),
          std::string()));
}

}  // namespace

OccurrenceSource SourceOf(const storage::v1::DefinitionRecord& definition) {
  const bool has_uid = definition.uid().size() == Uid::kBytes;
  OccurrenceSource source =
      SourceOfFacts(has_uid ? Uid::FromBytes(definition.uid()) : Uid(), definition);
  source.run_kept =
      definition.has_on_complete() || source.run_overlap != storage::v1::RUN_OVERLAP_KIND_ALLOW;
  source.jitter = absl::Microseconds(definition.timing().jitter_micros());
  return source;
}

OccurrenceSource SourceOf(const Uid& uid, const storage::v1::ChildRecord& child) {
  OccurrenceSource source = SourceOfFacts(uid, child);
  source.run_kept = child.run_kept();
  source.jitter = absl::Microseconds(child.timing().jitter_micros());
  return source;
}

OccurrenceSource SourceOf(const Uid& uid, const storage::v1::LaunchRecord& launch) {
  OccurrenceSource source = SourceOfFacts(uid, launch);
  source.run_kept = true;
  return source;
}

EmittedOccurrence ToEmitted(const OccurrenceSource& source, const cron::Timetable& timetable,
                            const cron::Occurrence& occurrence) {
  EmittedOccurrence emitted;
  emitted.id = timetable.IdOf(occurrence);
  emitted.nominal_time = occurrence.instant;
  emitted.launch_time = LaunchTimeOf(source, emitted.id, occurrence.instant);
  return emitted;
}

EmittedOccurrence ToEmitted(const LaunchKey& key, const storage::v1::LaunchRecord& record) {
  return {.id = key.occurrence,
          .nominal_time = FromMicros(record.nominal_time_micros()),
          .launch_time = key.launch_time};
}

absl::Time LaunchTimeOf(const OccurrenceSource& source, const std::string& id,
                        absl::Time nominal_time) {
  if (source.jitter <= absl::ZeroDuration()) return nominal_time;
  return nominal_time +
         JitterOf(RunIdentity(source.tenant, source.uid, id).EventId(0), source.jitter);
}

uint8_t LaneFor(uint8_t priority, absl::Time launch_time, absl::Time now) {
  return launch_time + kCatchUpAfter < now ? kLaneCatchUp : priority;
}

void AddOccurrenceRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                       const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out) {
  if (WaitsForLaunch(source, occurrence)) return AddLaunch(source, occurrence, layout, out);
  AddLaunchedRows(source, occurrence, layout, now, out);
}

kv::Mutation SkippedOccurrence(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                               absl::string_view reason, const kv::Layout& layout, absl::Time now) {
  return SkippedOccurrences(source, occurrence, 1, occurrence.nominal_time, reason, layout, now);
}

kv::Mutation SkippedOccurrences(const OccurrenceSource& source, const EmittedOccurrence& first,
                                uint64_t occurrences, absl::Time last, absl::string_view reason,
                                const kv::Layout& layout, absl::Time now) {
  storage::v1::DoneRecord done;
  done.set_tenant(source.tenant);
  done.set_count(source.event_count);
  done.set_outcome(storage::v1::OUTCOME_KIND_SKIPPED);
  done.set_reason(std::string(reason));
  done.set_nominal_time_micros(ToMicros(first.nominal_time));
  done.set_launch_time_micros(ToMicros(first.launch_time));
  done.set_complete_time_micros(ToMicros(now));
  done.set_version(source.version);
  done.set_run_count(source.event_count);
  done.set_run_skipped(true);
  if (occurrences > 1) {
    done.set_skipped_occurrences(occurrences);
    done.set_last_nominal_time_micros(ToMicros(last));
  }
  const std::string event_id = RunIdentity(source.tenant, source.uid, first.id).EventId(0);
  return Put(kv::ColumnFamily::kDone,
             EncodeDoneKey({.shard = ShardOfEventId(event_id, layout.queue_shards),
                            .day = DoneDay(first.launch_time),
                            .uid = source.uid,
                            .occurrence = first.id,
                            .first = 0}),
             done.SerializeAsString());
}

void AddLaunchedRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                     const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out) {
  if (source.event_count > 1 || source.run_kept) AddRun(source, occurrence, layout, now, out);
  if (source.throttle.has_value()) return AddWaiting(source, occurrence, layout, now, out);
  if (source.event_count <= 1) {
    const std::string event_id = RunIdentity(source.tenant, source.uid, occurrence.id).EventId(0);
    AddSlice(source, occurrence, now, ShardOfEventId(event_id, layout.queue_shards),
             {.first = 0, .count = 1}, out);
    return;
  }
  for (uint32_t shard = 0; shard < layout.queue_shards; ++shard) {
    const IndexSlice slice = SliceOfShard(source.event_count, shard, layout.queue_shards);
    if (slice.count > 0)
      AddSlice(source, occurrence, now, static_cast<uint16_t>(shard), slice, out);
  }
}

size_t OccurrenceRowCount(const OccurrenceSource& source, const kv::Layout& layout) {
  if (source.run_overlap != storage::v1::RUN_OVERLAP_KIND_ALLOW) return 1;
  const size_t run = source.event_count > 1 || source.run_kept ? 2 : 0;
  if (source.throttle.has_value()) return run + 1;
  return run +
         static_cast<size_t>(std::clamp<uint64_t>(source.event_count, 1, layout.queue_shards));
}

void AddMovedRow(const OccurrenceSource& to, const storage::v1::EventRecord& row,
                 const std::string& occurrence, uint64_t first, absl::Time due_time,
                 const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>& out) {
  storage::v1::EventRecord moved = row;
  const uint64_t begin = first + row.throttle().taken();
  const uint64_t end = first + row.count();
  moved.clear_throttle();
  if (to.throttle.has_value()) {
    OccurrenceSource source = to;
    source.event_count = std::max<uint64_t>(row.run_count(), 1);  // the number of events of a run
                                                                  // never changes
    *moved.mutable_throttle() = ThrottleOf(source, MovedWindowBegin(source, row, now));
    moved.set_priority(to.priority);
    moved.set_count(end - begin);
    const WaitingKey key =
        WaitingKeyOf(moved, to.uid, occurrence, begin, due_time, layout.policy_shards);
    out.push_back(
        Put(kv::ColumnFamily::kWaiting, EncodeWaitingKey(key), moved.SerializeAsString()));
    return;
  }
  moved.clear_priority();
  const RunIdentity run(row.tenant(), to.uid, occurrence);
  for (const auto& [shard, slice] : SplitByQueueShard(
           run, row.run_count(), {.first = begin, .count = end - begin}, layout.queue_shards)) {
    EventKey key;
    key.shard = shard;
    key.lane = row.attempts() > 0 ? kLaneRetry : LaneFor(to.priority, due_time, now);
    key.due_time = due_time;
    key.uid = to.uid;
    key.occurrence = occurrence;
    key.first = slice.first;
    moved.set_count(slice.count);
    out.push_back(Put(kv::ColumnFamily::kEvents, EncodeEventKey(key), moved.SerializeAsString()));
  }
}

}  // namespace escapement
