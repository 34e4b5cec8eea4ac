// Keys of the column families `policies`, `schedules`, `states`, `definitions` and `labels`.

#ifndef COMMON_STORAGE_SCHEDULE_TABLE_H_
#define COMMON_STORAGE_SCHEDULE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement {

namespace storage::v1 {
class PolicyRecord;
class ThrottleRecord;
}  // namespace storage::v1

// The column family `policies`: throttling policies and calendars, which schedules refer to them,
// and subscriptions.
//
// 0 (u8), tenant (text), policy id (text) → PolicyRecord
//
// 1 (u8), policy uid, schedule uid → empty: the schedule's current definition has this policy. The
// group that changes the schedule writes it, under the condition that the policy is present. A
// policy is deleted under the condition that no such key exists.
//
// 2 (u8), tenant (text), calendar id (text) → CalendarRecord
//
// 3 (u8), calendar uid, schedule uid → empty: the schedule's current definition names this
// calendar. Written and guarded as the rows of kind 1.
//
// 4 (u8), tenant (text) → a mark (16 bytes) that changes with every change of a calendar of the
// tenant. So these changes exclude each other.
//
// 5 (u8), tenant (text), calendar id (text) → RetimingProgress: schedules that name this calendar
// may still have former days of it.
//
// 6 (u8) … → statistics: statistics_table.h has these keys.
//
// 7 (u8), tenant (text), subscription id (text) → SubscriptionRecord
//
// 8 (u8), tenant (text), subscription id (text) → SubscriptionStateRecord
//
// The uid of a policy or calendar is a hash of its name. If it is created again it may have the
// same uid, because nothing of a deleted one remains.

std::string PolicyKey(absl::string_view tenant, absl::string_view policy_id);
// The prefix of all policies of a tenant, in the order of their ids.
std::string PolicyPrefix(absl::string_view tenant);

struct PolicyName {
  std::string tenant;
  std::string policy_id;
};
// nullopt if the key is not the key of a policy.
std::optional<PolicyName> DecodePolicyKey(absl::string_view key);

std::string PolicyUserKey(const Uid& policy, const Uid& schedule);
std::string PolicyUserPrefix(const Uid& policy);

std::string CalendarKey(absl::string_view tenant, absl::string_view calendar_id);
// The prefix of all calendars of a tenant, in the order of their ids.
std::string CalendarPrefix(absl::string_view tenant);
Uid CalendarUid(absl::string_view tenant, absl::string_view calendar_id);
std::string CalendarUserKey(const Uid& calendar, const Uid& schedule);
std::string CalendarUserPrefix(const Uid& calendar);
// nullopt if the key is not that of a calendar's user.
std::optional<Uid> DecodeCalendarUserKey(absl::string_view key);  // the schedule
std::string CalendarMarkKey(absl::string_view tenant);
std::string RetimingKey(absl::string_view tenant, absl::string_view calendar_id);
// The prefix of these rows of all tenants.
std::string RetimingPrefix();
struct RetimingName {
  std::string tenant;
  std::string calendar_id;
};
std::optional<RetimingName> DecodeRetimingKey(absl::string_view key);

// How far the schedules that name a calendar have its present days. They are visited in the order
// of their uids.
struct RetimingProgress {
  Uid change;          // names the change of the calendar
  uint64_t steps = 0;  // commits of progress since then: of two values the later one has more
  // Schedules up to this one have been visited. Unset: none has.
  std::optional<Uid> last;
  // Schedules that were visited and could not be changed.
  std::vector<Uid> failed = {};
  // If `failed` was full when one more failed: schedules behind this one are visited again.
  std::optional<Uid> redo_after = std::nullopt;
  // Set if all have been visited and some of them failed: a master tries these at this store time.
  std::optional<absl::Time> retry_time = std::nullopt;

  friend bool operator==(const RetimingProgress&, const RetimingProgress&) = default;
};
std::string EncodeRetimingProgress(const RetimingProgress& progress);
// nullopt also if it has a field that this version does not know.
std::optional<RetimingProgress> DecodeRetimingProgress(absl::string_view value);

std::string SubscriptionKey(absl::string_view tenant, absl::string_view subscription_id);
// The prefix of all subscriptions of a tenant, in the order of their ids; of all tenants.
std::string SubscriptionPrefix(absl::string_view tenant);
std::string SubscriptionPrefix();
std::string SubscriptionStateKey(absl::string_view tenant, absl::string_view subscription_id);

Uid PolicyUid(absl::string_view tenant, absl::string_view policy_id);
// The uid under which rows with this throttle wait: their policy's or, without a policy, the
// schedule's own.
Uid WaitingUid(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
               const Uid& schedule);
// The policy shard that a uid has by itself: of a policy whose PolicyRecord.by_tenant is false, or
// of a schedule without a policy.
uint16_t PolicyShardOf(const Uid& policy, uint32_t policy_shards);

// Where rows wait, and where their grants are.
struct WaitingPlace {
  uint16_t policy_shard = 0;
  Uid policy;  // WaitingUid
};
WaitingPlace WaitingPlaceOf(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
                            const Uid& schedule, uint32_t policy_shards);
WaitingPlace WaitingPlaceOf(const storage::v1::PolicyRecord& policy, uint32_t policy_shards);
// True if events have the same limits under both.
bool SameLimits(const storage::v1::ThrottleRecord& a, const storage::v1::ThrottleRecord& b);

// The column families `schedules`, `states`, `definitions` and `labels`.
//
// schedules: tenant (text), schedule id (text) → ScheduleRecord. And: empty text, tenant, schedule
// id → ScheduleRecord of the schedule of this name that was deleted last. Its runs can still be
// listed.
//
// states: uid → StateRecord
//
// definitions: uid, version (u64) → DefinitionRecord. For one-off events: see
// InternedDelivery (event_table.h).
//
// labels: tenant (text), key of the label (text), its value (text), schedule id (text) → empty. One
// row for each label of a schedule.

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
