#include "common/storage/occurrence_rows.h"

#include <algorithm>
#include <utility>

#include "common/base/micros.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {
namespace {

kv::Mutation Put(kv::ColumnFamily cf, std::string key, std::string value) {
  kv::Mutation mutation;
  mutation.cf = cf;
  mutation.key = std::move(key);
  mutation.value = std::move(value);
  return mutation;
}

void AddSlice(const OccurrenceSource& source, const EmittedOccurrence& occurrence, absl::Time now,
              uint16_t shard, const IndexSlice& slice, std::vector<kv::Mutation>* out) {
  EventKey key;
  key.shard = shard;
  key.lane = LaneFor(source.priority, occurrence.launch_time, now);
  key.due_time = occurrence.launch_time;
  key.uid = source.uid;
  key.occurrence = occurrence.id;
  key.first = slice.first;
  storage::v1::EventRecord record;
  record.set_tenant(source.tenant);
  record.set_version(source.version);
  record.set_count(slice.count);
  record.set_run_count(source.event_count);
  record.set_nominal_time_micros(ToMicros(occurrence.nominal_time));
  record.set_launch_time_micros(ToMicros(occurrence.launch_time));
  record.set_triggered(occurrence.triggered);
  out->push_back(Put(kv::ColumnFamily::kEvents, EncodeEventKey(key), record.SerializeAsString()));
}

void AddRun(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
            const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>* out) {
  storage::v1::RunRecord record;
  record.set_tenant(source.tenant);
  record.set_schedule_id(source.schedule_id);
  record.set_version(source.version);
  record.set_event_count(source.event_count);
  record.set_nominal_time_micros(ToMicros(occurrence.nominal_time));
  record.set_emit_time_micros(ToMicros(now));
  const RunKey run{source.uid, occurrence.id};
  out->push_back(Put(kv::ColumnFamily::kRuns, EncodeRunKey(run), record.SerializeAsString()));
  out->push_back(
      Put(kv::ColumnFamily::kCheckpoints,
          ActiveRunKey(PartitionOf(source.uid, layout.partitions), run.uid, run.occurrence),
          std::string()));
}

}  // namespace

OccurrenceSource SourceOf(const storage::v1::DefinitionRecord& definition) {
  OccurrenceSource source;
  source.tenant = definition.tenant();
  source.schedule_id = definition.schedule_id();
  if (definition.uid().size() == Uid::kBytes) source.uid = Uid::FromBytes(definition.uid());
  source.version = definition.version();
  source.event_count = std::max<uint64_t>(definition.event_count(), 1);
  source.priority = static_cast<uint8_t>(std::min<uint32_t>(definition.priority(), kLaneRetry - 1));
  return source;
}

uint8_t LaneFor(uint8_t priority, absl::Time launch_time, absl::Time now) {
  return launch_time + kCatchUpAfter < now ? kLaneCatchUp : priority;
}

void AddOccurrenceRows(const OccurrenceSource& source, const EmittedOccurrence& occurrence,
                       const kv::Layout& layout, absl::Time now, std::vector<kv::Mutation>* out) {
  if (source.event_count <= 1) {
    const std::string event_id = RunIdentity(source.tenant, source.uid, occurrence.id).EventId(0);
    AddSlice(source, occurrence, now, ShardOfEventId(event_id, layout.queue_shards),
             {.first = 0, .count = 1}, out);
    return;
  }
  AddRun(source, occurrence, layout, now, out);
  for (uint32_t shard = 0; shard < layout.queue_shards; ++shard) {
    const IndexSlice slice = SliceOfShard(source.event_count, shard, layout.queue_shards);
    if (slice.count > 0)
      AddSlice(source, occurrence, now, static_cast<uint16_t>(shard), slice, out);
  }
}

}  // namespace escapement
