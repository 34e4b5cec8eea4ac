#include "common/storage/schedule_table.h"

#include "common/base/hash.h"
#include "common/base/key_codec.h"

namespace escapement {

std::string ScheduleKey(absl::string_view tenant, absl::string_view schedule_id) {
  return KeyWriter().Text(tenant).Text(schedule_id).Take();
}

std::string DeletedScheduleKey(absl::string_view tenant, absl::string_view schedule_id) {
  return KeyWriter().Text("").Text(tenant).Text(schedule_id).Take();
}

std::string SchedulePrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string LabelKey(absl::string_view tenant, absl::string_view key, absl::string_view value,
                     absl::string_view schedule_id) {
  return KeyWriter(LabelPrefix(tenant, key, value)).Text(schedule_id).Take();
}

std::string LabelPrefix(absl::string_view tenant, absl::string_view key, absl::string_view value) {
  return KeyWriter().Text(tenant).Text(key).Text(value).Take();
}

std::string StateKey(const Uid& uid) { return std::string(uid.bytes()); }

std::string DefinitionKey(const Uid& uid, uint64_t version) {
  return KeyWriter().Id(uid).U64(version).Take();
}

uint16_t PartitionOf(const Uid& uid, uint32_t partitions) {
  return static_cast<uint16_t>(StableHash64(uid.bytes()) % partitions);
}

}  // namespace escapement
