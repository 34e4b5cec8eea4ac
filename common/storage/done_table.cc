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

storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row) {
  storage::v1::DoneRecord done;
  done.set_tenant(row.tenant());
  done.set_event_id(row.event_id());
  done.set_version(row.version());
  done.set_attempts(row.attempts());
  done.set_nominal_time_micros(row.nominal_time_micros());
  done.set_launch_time_micros(row.launch_time_micros());
  done.set_run_count(std::max<uint64_t>(row.run_count(), 1));
  done.set_run_kept(row.run_kept());
  *done.mutable_tried() = row.tried();
  done.set_redrives(row.redrives());
  return done;
}

}  // namespace escapement
