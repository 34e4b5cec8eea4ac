#include "services/master/schedules/changes/parked_row.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {

namespace {

// The parts that keys of `events` and of `waiting` share.
template <typename Key>
bool Take(const std::optional<Key>& key, ParkedRow& parked) {
  if (!key.has_value()) return false;
  parked.uid = key->uid;
  parked.occurrence = key->occurrence;
  parked.due_time = key->due_time;
  parked.first = key->first;
  return true;
}

}  // namespace

kv::ScanRequest ScanOfParked(const Uid& uid) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kParked;
  scan.begin = ParkedPrefix(uid);
  scan.end = PrefixEnd(scan.begin);
  scan.limit = kParkedChunkMax;
  scan.bytes_max = 8 << 20;
  return scan;
}

absl::StatusOr<ParkedRow> ReadParkedRow(kv::Entry entry) {
  ParkedRow parked;
  parked.entry = std::move(entry);
  parked.home.key = EventKeyOfParked(parked.entry.key);
  if (!parked.row.ParseFromString(parked.entry.value)) return BrokenRecord("a parked event");
  parked.home.cf = parked.throttled() ? kv::ColumnFamily::kWaiting : kv::ColumnFamily::kEvents;
  const bool read = parked.throttled() ? Take(DecodeWaitingKey(parked.home.key), parked)
                                       : Take(DecodeEventKey(parked.home.key), parked);
  // A row that waits for its window, or for its place in it, has that time in its key.
  if (parked.throttled() && parked.row.attempts() == 0)
    parked.due_time = FromMicros(parked.row.launch_time_micros());
  if (!read || parked.begin() > parked.end()) return BrokenRecord("a parked event");
  return parked;
}

std::vector<std::pair<uint16_t, IndexSlice>> SlicesOf(const ParkedRow& parked,
                                                      const kv::Layout& layout) {
  const IndexSlice slice{.first = parked.begin(), .count = parked.end() - parked.begin()};
  if (parked.throttled()) {
    return SplitByQueueShard(RunIdentity(parked.row.tenant(), parked.uid, parked.occurrence),
                             parked.row.run_count(), slice, layout.queue_shards);
  }
  const auto key = DecodeEventKey(parked.home.key);
  return {{key.has_value() ? key->shard : uint16_t{0}, slice}};
}

using kv::ColumnFamily;
using ConditionKind = kv::Condition::Kind;

absl::Status ParkedEnds::End(const ParkedRow& parked, storage::v1::OutcomeKind outcome,
                             absl::string_view reason, kv::Group& group) {
  const storage::v1::EventRecord& row = parked.row;
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_outcome(outcome);
  done.set_reason(std::string(reason));
  done.set_complete_time_micros(ToMicros(now_));
  group.conditions.push_back(
      kv::ValueIs(ColumnFamily::kParked, parked.entry.key, parked.entry.value));
  group.mutations.push_back(
      {.cf = ColumnFamily::kParked, .kind = kv::Mutation::Kind::kDelete, .key = parked.entry.key});
  for (const auto& [shard, slice] : SlicesOf(parked, layout_)) {
    done.set_count(slice.count);
    group.mutations.push_back(
        {.cf = ColumnFamily::kDone,
         .key = EncodeDoneKey({.shard = shard,
                               .day = DoneDay(FromMicros(row.launch_time_micros())),
                               .uid = parked.uid,
                               .occurrence = parked.occurrence,
                               .first = slice.first}),
         .value = done.SerializeAsString()});
  }
  if (!HasRun(row)) return absl::OkStatus();

  const std::string part_key = RunPartKey({parked.uid, parked.occurrence}, kMasterRunPart);
  const auto [part, fresh] = parts_.try_emplace(part_key);
  const auto stored = stored_.find(part_key);
  if (fresh && stored != stored_.end() && stored->second.has_value() &&
      !part->second.ParseFromString(*stored->second)) {
    return BrokenRecord("a part of a run");
  }
  const uint64_t ended = parked.end() - parked.begin();
  if (outcome == storage::v1::OUTCOME_KIND_CANCELLED) {
    part->second.set_cancelled(part->second.cancelled() + ended);
  } else {
    part->second.set_skipped(part->second.skipped() + ended);
    part->second.set_skip_reason(std::string(reason));
  }
  if (row.attempts() == 0) part->second.set_never_started(part->second.never_started() + ended);
  part->second.set_last_end_time_micros(ToMicros(now_));
  return absl::OkStatus();
}

void ParkedEnds::PutRunParts(kv::Group& group) const {
  for (const auto& [key, part] : parts_) {
    const auto stored = stored_.find(key);
    group.conditions.push_back(kv::Unchanged(
        ColumnFamily::kRunParts, key, stored == stored_.end() ? std::nullopt : stored->second));
    group.mutations.push_back(
        {.cf = ColumnFamily::kRunParts, .key = key, .value = part.SerializeAsString()});
  }
}

}  // namespace escapement::master
