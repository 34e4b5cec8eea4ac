#include "common/storage/run_table.h"

#include <algorithm>

#include "common/base/key_codec.h"

namespace escapement {

std::string RunPrefix(const Uid& uid) { return std::string(uid.bytes()); }

bool HasRun(const storage::v1::EventRecord& row) {
  return (row.run_count() > 1 || row.run_kept()) && !row.counts_in_no_run();
}

std::string EncodeRunKey(const RunKey& key) {
  return KeyWriter().Id(key.uid).Text(key.occurrence).Take();
}

std::optional<RunKey> DecodeRunKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  RunKey key;
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string RunPartPrefix(const RunKey& run) { return EncodeRunKey(run); }

std::string RunPartKey(const RunKey& run, uint16_t shard) {
  return KeyWriter(RunPartPrefix(run)).U16(shard).Take();
}

std::string ScheduleCountsKey(const Uid& uid, uint16_t shard) {
  return RunPartKey({.uid = uid, .occurrence = ""}, shard);
}

std::string ScheduleCountsPrefix(const Uid& uid) {
  return RunPartPrefix({.uid = uid, .occurrence = ""});
}

void CountInSchedule(storage::v1::OutcomeKind outcome, uint64_t count, int64_t end_micros,
                     storage::v1::RunPartRecord& part) {
  if (outcome == storage::v1::OUTCOME_KIND_SUCCEEDED) {
    part.set_succeeded(part.succeeded() + count);
  } else if (outcome == storage::v1::OUTCOME_KIND_FAILED) {
    part.set_failed(part.failed() + count);
  } else {
    return;
  }
  if (end_micros < part.last_end_time_micros()) return;
  part.set_last_end_time_micros(end_micros);
  part.set_last_outcome(outcome);
}

void AddScheduleCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum) {
  sum.set_succeeded(sum.succeeded() + part.succeeded());
  sum.set_failed(sum.failed() + part.failed());
  if (part.last_end_time_micros() <= sum.last_end_time_micros()) return;
  sum.set_last_end_time_micros(part.last_end_time_micros());
  sum.set_last_outcome(part.last_outcome());
}

std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards) {
  std::vector<std::pair<uint16_t, IndexSlice>> parts;
  run_count = std::max<uint64_t>(run_count, 1);
  if (queue_shards == 0 || range.count == 0 || range.first >= run_count) return parts;
  const uint64_t end = range.first + std::min(range.count, run_count - range.first);
  if (run_count == 1) {
    parts.emplace_back(ShardOfEventId(run.EventId(0), queue_shards), IndexSlice{0, 1});
    return parts;
  }
  for (uint64_t index = range.first; index < end;) {
    const uint16_t shard = ShardOfIndex(run_count, index, queue_shards);
    const IndexSlice slice = SliceOfShard(run_count, shard, queue_shards);
    const uint64_t part_end = std::min(end, slice.first + slice.count);
    parts.emplace_back(shard, IndexSlice{index, part_end - index});
    index = part_end;
  }
  return parts;
}

}  // namespace escapement
