#include "common/storage/done_table.h"

#include <algorithm>

#include "common/base/key_codec.h"

namespace escapement {

uint32_t DoneDay(absl::Time launch_time) {
  const int64_t days = absl::ToUnixSeconds(launch_time) / 86'400;
  return static_cast<uint32_t>(std::clamp<int64_t>(days, 0, UINT32_MAX - 1));
}

std::string DoneDayKey(uint16_t shard, uint32_t day) {
  return KeyWriter().U16(shard).U32(day).Take();
}

std::string DoneUidPrefix(uint16_t shard, uint32_t day, const Uid& uid) {
  return KeyWriter(DoneDayKey(shard, day)).Id(uid).Take();
}

std::string DoneRunPrefix(uint16_t shard, uint32_t day, const Uid& uid,
                          absl::string_view occurrence) {
  return KeyWriter(DoneUidPrefix(shard, day, uid)).Text(occurrence).Take();
}

std::string EncodeDoneKey(const DoneKey& key) {
  return KeyWriter(DoneRunPrefix(key.shard, key.day, key.uid, key.occurrence))
      .U64(key.first)
      .Take();
}

std::optional<DoneKey> DecodeDoneKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  DoneKey key;
  key.shard = reader.U16();
  key.day = reader.U32();
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!reader.done()) return std::nullopt;
  return key;
}

}  // namespace escapement
