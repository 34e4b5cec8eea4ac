#include "services/master/audit/access_sweep.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/kv/group_parts.h"
#include "common/storage/access_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

std::optional<std::pair<absl::Time, std::string>> ReadAuditKey(absl::string_view key) {
  std::optional<AuditName> name = DecodeAuditKey(key);
  if (!name.has_value()) return std::nullopt;
  return std::pair(name->place.time, std::move(name->tenant));
}

std::optional<std::string> DeleteOldKeys(const kv::ScanResult& page, absl::Time now,
                                         kv::Commit& commit) {
  const int64_t oldest_kept = ToMicros(now - kAuditRetention);
  const auto is_old = [&](int64_t micros) { return micros != 0 && micros < oldest_kept; };
  kv::Group& group = commit.groups.emplace_back();
  for (const kv::Entry& entry : page.entries) {
    storage::v1::KeyRecord record;
    if (!record.ParseFromString(entry.value) || record.from_file()) continue;
    if (!is_old(record.revoke_time_micros()) && !is_old(record.expire_time_micros())) continue;
    group.mutations.push_back(kv::Delete(ColumnFamily::kKeys, entry.key));
    group.mutations.push_back(kv::Delete(ColumnFamily::kKeys, ApiKeyUseKey(record.key_id())));
  }
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> AccessSweep() {
  return {SweptByTime(ColumnFamily::kAudit, kAuditRetention, &ReadAuditKey, &AuditPrefix),
          {.cf = ColumnFamily::kKeys,
           .range = {ApiKeyPrefix(), PrefixEnd(ApiKeyPrefix())},
           .delete_old = &DeleteOldKeys}};
}

}  // namespace escapement::master
