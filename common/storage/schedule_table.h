// The column families `schedules`, `states`, `definitions` and `labels`.
//
// schedules: tenant (text), schedule id (text) → ScheduleRecord. And: empty text, tenant, schedule
// id → ScheduleRecord of the schedule of this name that was deleted last. Its runs can still be
// listed.
//
// states: uid → StateRecord
//
// definitions: uid, version (u64) → DefinitionRecord. For one-off events: see
// one_off/interned_delivery.h.
//
// labels: tenant (text), key of the label (text), its value (text), schedule id (text) → empty. One
// row for each label of a schedule.

#ifndef COMMON_STORAGE_SCHEDULE_TABLE_H_
#define COMMON_STORAGE_SCHEDULE_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

namespace escapement {

std::string ScheduleKey(absl::string_view tenant, absl::string_view schedule_id);
std::string DeletedScheduleKey(absl::string_view tenant, absl::string_view schedule_id);
// The prefix of all schedules of a tenant.
std::string SchedulePrefix(absl::string_view tenant);
std::string LabelKey(absl::string_view tenant, absl::string_view key, absl::string_view value,
                     absl::string_view schedule_id);
// The prefix of all schedules of a tenant with this label.
std::string LabelPrefix(absl::string_view tenant, absl::string_view key, absl::string_view value);
std::string StateKey(const Uid& uid);
std::string DefinitionKey(const Uid& uid, uint64_t version);

// The partition of the children index: StableHash64(uid) % partitions.
uint16_t PartitionOf(const Uid& uid, uint32_t partitions);

}  // namespace escapement

#endif  // COMMON_STORAGE_SCHEDULE_TABLE_H_
