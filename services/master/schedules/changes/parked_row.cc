#include "services/master/schedules/changes/parked_row.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/event_table.h"
#include "common/storage/queue_shard_slices.h"
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

}  // namespace escapement::master
