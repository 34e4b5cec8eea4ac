// Keys of the column families `tenants`, `keys`, `audit`, `event_names`, `dead_letters`,
// `requests`, `operations`, `pause_requests` and `target_states`.

#ifndef COMMON_STORAGE_NAME_TABLES_H_
#define COMMON_STORAGE_NAME_TABLES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// The column families of who may do what: `tenants`, `keys`, `audit`.
//
// tenants: tenant (text) → TenantRecord
//
// keys: 0 (u8), tenant (text), key id (text) → KeyRecord
// keys: 1 (u8), key id (text) → when the key was last used: micros, 8 bytes
//
// audit: tenant (text), time, hash of the record (16 bytes) → AuditRecord. The tenant "-" has what
// concerns all tenants.
//
// meta, in cell 0 only: "cell/", number of a cell (two decimal digits) → CellRecord

// Stands for all tenants in the names of keys and audit entries.
inline constexpr absl::string_view kAllTenants = "-";
inline constexpr absl::string_view kDefaultTenant = "default";

std::string TenantKey(absl::string_view tenant);
// nullopt if it is not such a key.
std::optional<std::string> DecodeTenantKey(absl::string_view key);

std::string CellKey(uint32_t cell);
inline constexpr absl::string_view kCellPrefix = "cell/";

std::string ApiKeyKey(absl::string_view tenant, absl::string_view key_id);
// The prefix of all keys; of the keys of one tenant, in the order of their ids.
std::string ApiKeyPrefix();
std::string ApiKeyPrefix(absl::string_view tenant);
// The key id. nullopt if it is not the key of an API key.
std::optional<std::string> DecodeApiKeyKey(absl::string_view key);
std::string ApiKeyUseKey(absl::string_view key_id);
std::string EncodeApiKeyUse(absl::Time time);
// InfinitePast if it cannot be read.
absl::Time DecodeApiKeyUse(absl::string_view value);

struct AuditPlace {
  absl::Time time;
  Uid hash;
};
std::string AuditKey(absl::string_view tenant, const AuditPlace& place);
std::string AuditPrefix(absl::string_view tenant);
// The first key of a tenant that is not before `time`.
std::string AuditKeyFrom(absl::string_view tenant, absl::Time time);
struct AuditName {
  std::string tenant;
  AuditPlace place;
};
std::optional<AuditName> DecodeAuditKey(absl::string_view key);

// The column families that are keyed by names which a tenant chose: `event_names`, `dead_letters`,
// `requests`.
//
// event_names: tenant (text), event id (text) → EventNameRecord
//
// dead_letters: tenant (text), time, event id (text) → DeadLetterRecord
//
// requests: tenant (text), request id (text) → RequestRecord

std::string EventNameKey(absl::string_view tenant, absl::string_view event_id);
std::string DeadLetterKey(absl::string_view tenant, absl::Time time, absl::string_view event_id);
std::string RequestKey(absl::string_view tenant, absl::string_view request_id);

// The keys of `dead_letters`, read, and the places of the rows that belong to a dead letter's
// event. The writers make the keys by DeadLetterKey.
//
// Pure.

struct DeadLetterName {
  std::string tenant;
  absl::Time time;  // when the event failed
  std::string event_id;

  friend bool operator==(const DeadLetterName&, const DeadLetterName&) = default;
};

std::string EncodeDeadLetterKey(const DeadLetterName& name);
std::optional<DeadLetterName> DecodeDeadLetterKey(absl::string_view key);
// The prefix of all dead letters of a tenant.
std::string DeadLetterPrefix(absl::string_view tenant);
// The key before all dead letters of the tenant with this time or a later one. The infinities give
// the begin and the end of the tenant's keys.
std::string DeadLetterKeyFrom(absl::string_view tenant, absl::Time time);

// True if the event is a one-off event.
bool IsOneOff(const storage::v1::DeadLetterRecord& letter);

// The key of the event's Done record. nullopt if the letter is broken. `event_id` is the event's.
std::optional<DoneKey> DoneKeyOf(const storage::v1::DeadLetterRecord& letter,
                                 absl::string_view event_id, uint32_t queue_shards);

// The column family `operations`: long work of a tenant, continued by any master.
//
// operations: tenant (text), operation id (text) → OperationRecord. Ids that the server makes sort
// by their time.
//
// Pure.

std::string OperationKey(absl::string_view tenant, absl::string_view operation_id);
// The prefix of all operations of a tenant.
std::string OperationPrefix(absl::string_view tenant);
// 32 hex digits: the time and random bits.
std::string NewOperationId(absl::Time now, uint64_t random);

// The column family `pause_requests`: schedules that handlers want paused, because their targets
// are gone for good.
//
// pause_requests: uid of the schedule (16 bytes) → PauseRequestRecord

std::string PauseRequestKey(const Uid& schedule);

// The column family `target_states`: how handlers use targets.
//
// target_states: tenant (text), target id (16 bytes), handler (text) → TargetRowRecord
//
// The target id is a hash of the target's key (common/records/row_judge.h). A row that its handler
// has not written for kTargetRowValidFor is of a dead handler: readers ignore it, and masters
// delete it.

inline constexpr absl::Duration kTargetRowValidFor = absl::Minutes(2);

// Names a row.
struct TargetRowName {
  std::string tenant;
  Uid target;
  std::string handler;
};

Uid TargetIdOf(absl::string_view target_key);
std::string EncodeTargetRowKey(const TargetRowName& name);
std::optional<TargetRowName> DecodeTargetRowKey(absl::string_view key);
// The prefix of the rows of a tenant; of those of one of its targets.
std::string TargetRowPrefix(absl::string_view tenant);
std::string TargetRowPrefix(absl::string_view tenant, const Uid& target);

}  // namespace escapement

#endif  // COMMON_STORAGE_NAME_TABLES_H_
