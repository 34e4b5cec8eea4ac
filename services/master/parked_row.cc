#include "services/master/parked_row.h"

#include <algorithm>
#include <utility>

#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/errors.h"

namespace escapement::master {
namespace {

// What keys of `events` and of `waiting` have in common.
template <typename Key>
bool Take(const std::optional<Key>& key, ParkedRow* parked) {
  if (!key.has_value()) return false;
  parked->uid = key->uid;
  parked->occurrence = key->occurrence;
  parked->due_time = key->due_time;
  parked->first = key->first;
  return true;
}

}  // namespace

absl::StatusOr<ParkedRow> ReadParkedRow(kv::Entry entry) {
  ParkedRow parked;
  parked.entry = std::move(entry);
  parked.home.key = EventKeyOfParked(parked.entry.key);
  if (!parked.row.ParseFromString(parked.entry.value)) return BrokenRecord("a parked event");
  parked.home.cf = parked.throttled() ? kv::ColumnFamily::kWaiting : kv::ColumnFamily::kEvents;
  const bool read = parked.throttled() ? Take(DecodeWaitingKey(parked.home.key), &parked)
                                       : Take(DecodeEventKey(parked.home.key), &parked);
  if (!read || parked.begin() > parked.end()) return BrokenRecord("a parked event");
  return parked;
}

std::vector<ShardRange> RangesOf(const ParkedRow& parked, const kv::Layout& layout) {
  if (!parked.throttled()) {
    const auto key = DecodeEventKey(parked.home.key);
    return {{.shard = key.has_value() ? key->shard : uint16_t{0},
             .first = parked.first,
             .count = parked.row.count()}};
  }
  const uint64_t n = parked.row.run_count();
  if (n <= 1) {
    const std::string event_id =
        RunIdentity(parked.row.tenant(), parked.uid, parked.occurrence).EventId(0);
    return {{.shard = ShardOfEventId(event_id, layout.queue_shards), .first = 0, .count = 1}};
  }
  std::vector<ShardRange> ranges;
  for (uint64_t first = parked.begin(); first < parked.end();) {
    const uint16_t shard = ShardOfIndex(n, first, layout.queue_shards);
    const IndexSlice slice = SliceOfShard(n, shard, layout.queue_shards);
    const uint64_t slice_end = slice.first + slice.count;
    // Beyond n there are no slices: such a row is not ours, but must not loop.
    const uint64_t end = slice_end > first ? std::min(parked.end(), slice_end) : parked.end();
    ranges.push_back({.shard = shard, .first = first, .count = end - first});
    first = end;
  }
  return ranges;
}

}  // namespace escapement::master
