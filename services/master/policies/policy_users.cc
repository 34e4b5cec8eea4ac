#include "services/master/policies/policy_users.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/kv/kv_store.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

bool HasFurtherLimit(const storage::v1::EventRecord& row, const PolicyName& name) {
  return row.tenant() == name.tenant &&
         std::any_of(row.throttle().more().begin(), row.throttle().more().end(),
                     [&](const storage::v1::LimitRecord& limit) {
                       return limit.policy_id() == name.policy;
                     });
}

// OK unless the row is a use of the policy.
absl::Status CheckRow(ColumnFamily cf, const kv::Entry& entry, const PolicyName& name) {
  if (cf == ColumnFamily::kPolicies) return PolicyHasSchedules(name.ToString());
  if (cf == ColumnFamily::kWaiting) {
    storage::v1::EventRecord row;
    if (!row.ParseFromString(entry.value)) return BrokenRecord("a waiting event");
    return HasFurtherLimit(row, name) ? PolicyHasWaiting(name.ToString()) : absl::OkStatus();
  }
  if (!DecodeGrantKey(entry.key).has_value()) return absl::OkStatus();
  storage::v1::GrantRecord grant;
  if (!grant.ParseFromString(entry.value)) return BrokenRecord("a grant");
  return HasFurtherLimit(grant.event(), name) ? PolicyHasHolders(name.ToString())
                                              : absl::OkStatus();
}

}  // namespace

void CheckUnused(MasterContext& context, PolicyName name,
                 absl::AnyInvocable<void(absl::Status)> done) {
  std::vector<kv::Key> keys = {{ColumnFamily::kPolicies, PolicyKey(name.tenant, name.policy)}};
  ReadKeys(context, std::move(keys),
           [&context, name = std::move(name),
            done = std::move(done)](absl::StatusOr<KeyValues> read) mutable {
             if (!read.ok()) return done(read.status());
             const std::optional<std::string>& bytes = read->front();
             if (!bytes.has_value()) return done(absl::OkStatus());
             storage::v1::PolicyRecord policy;
             if (!policy.ParseFromString(*bytes)) return done(BrokenRecord(name.ToString()));
             const auto [shard, uid] = WaitingPlaceOf(policy, context.layout.policy_shards);
             std::vector<KeyRange> ranges;
             const auto add = [&](ColumnFamily cf, const std::string& prefix) {
               ranges.push_back({cf, prefix, PrefixEnd(prefix)});
             };
             add(ColumnFamily::kPolicies, PolicyUserPrefix(uid));
             add(ColumnFamily::kWaiting, WaitingRowsPrefix(shard));
             add(ColumnFamily::kGrants, GrantShardPrefix(shard));
             ReadRanges(
                 context, std::move(ranges), kCheckedRowsMax + 1,
                 [name = std::move(name), rows = size_t{0}](
                     const KeyRange& range, kv::Entry& entry) mutable -> absl::StatusOr<bool> {
                   if (++rows > kCheckedRowsMax) return TooMuchWaiting(name.ToString());
                   if (absl::Status used = CheckRow(range.cf, entry, name); !used.ok()) return used;
                   return true;
                 },
                 std::move(done));
           });
}

}  // namespace escapement::master
