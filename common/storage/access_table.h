// The column families of who may do what: `tenants`, `keys`, `audit`.
//
// tenants: tenant (text) → TenantRecord
//
// keys: 0 (u8), tenant (text), key id (text) → KeyRecord
// keys: 1 (u8), key id (text) → when the key was last used: micros, 8 bytes
//
// audit: tenant (text), time, hash of the record (16 bytes) → AuditRecord. The tenant "-" has what
// concerns all tenants.

#ifndef COMMON_STORAGE_ACCESS_TABLE_H_
#define COMMON_STORAGE_ACCESS_TABLE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement {

// Stands for all tenants in the names of keys and audit entries.
inline constexpr absl::string_view kAllTenants = "-";
inline constexpr absl::string_view kDefaultTenant = "default";

std::string TenantKey(absl::string_view tenant);
// nullopt if it is not such a key.
std::optional<std::string> DecodeTenantKey(absl::string_view key);

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

}  // namespace escapement

#endif  // COMMON_STORAGE_ACCESS_TABLE_H_
