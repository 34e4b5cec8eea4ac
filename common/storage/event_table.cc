#include "common/storage/event_table.h"

#include "common/base/key_codec.h"

namespace escapement {

std::string EncodeEventKey(const EventKey& key) {
  return KeyWriter()
      .U16(key.shard)
      .U8(key.lane)
      .Time(key.due_time)
      .Id(key.uid)
      .Text(key.occurrence)
      .U64(key.first)
      .Take();
}

std::optional<EventKey> DecodeEventKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  EventKey key;
  key.shard = reader.U16();
  key.lane = reader.U8();
  key.due_time = reader.Time();
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string EventLaneKey(uint16_t shard, uint8_t lane, absl::Time due_time) {
  return KeyWriter().U16(shard).U8(lane).Time(due_time).Take();
}

std::string EventShardBegin(uint16_t shard) { return KeyWriter().U16(shard).Take(); }

std::string EventShardEnd(uint16_t shard) { return PrefixEnd(EventShardBegin(shard)); }

std::string ParkedKey(const Uid& uid, absl::string_view event_key) {
  return KeyWriter().Id(uid).Raw(event_key).Take();
}

std::string ParkedPrefix(const Uid& uid) { return std::string(uid.bytes()); }

std::string EventKeyOfParked(absl::string_view parked_key) {
  if (parked_key.size() <= Uid::kBytes) return std::string();
  return std::string(parked_key.substr(Uid::kBytes));
}

}  // namespace escapement
