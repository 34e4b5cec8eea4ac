#include "services/master/schedules/changes/parked_ends.h"

#include "common/base/micros.h"
#include "common/storage/done_record.h"
#include "common/storage/done_table.h"
#include "common/storage/run_table.h"
#include "services/master/base/errors.h"

namespace escapement::master {

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
      {.cf = ColumnFamily::kParked, .key = parked.entry.key, .kind = ConditionKind::kPresent});
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
  part->second.set_last_end_time_micros(ToMicros(now_));
  return absl::OkStatus();
}

void ParkedEnds::PutRunParts(kv::Group& group) const {
  for (const auto& [key, part] : parts_) {
    const auto stored = stored_.find(key);
    const bool present = stored != stored_.end() && stored->second.has_value();
    group.conditions.push_back(
        {.cf = ColumnFamily::kRunParts,
         .key = key,
         .kind = present ? ConditionKind::kValueEquals : ConditionKind::kAbsent,
         .value = present ? *stored->second : std::string()});
    group.mutations.push_back(
        {.cf = ColumnFamily::kRunParts, .key = key, .value = part.SerializeAsString()});
  }
}

}  // namespace escapement::master
