#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/tenants/tenant_codec.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::TenantRecord;

// A deleted tenant in the present sweep.
struct LeftTenant {
  std::string bytes;  // its record, as it was read
  TenantRecord record;
  bool pending = false;      // it has rows that others work on
  bool found = false;        // it has other rows
  int64_t until_micros = 0;  // the latest due time of its pending events
};

struct TenantPass {
  std::map<std::string, LeftTenant> tenants;
  std::map<std::string, std::string> tenant_of_uid;  // by schedules whose states are deleted
  std::set<std::string> clean;                       // tenants of which the last sweep found no row
};
using PassPtr = std::shared_ptr<TenantPass>;

// How the sweep treats the rows of a family. RowsOf has no default: a new family must be decided
// about.
enum class RowsAre {
  kOfNoTenant,  // they name none, and are found only through rows that do
  kWorkedOn,    // a service still works on them, and may write other rows of their tenant
  kLeft,        // they are only read, or belong to rows of this kind
};

constexpr RowsAre RowsOf(ColumnFamily cf) {
  switch (cf) {
    case ColumnFamily::kTenants:
    case ColumnFamily::kInUse:
    case ColumnFamily::kLeases:
    case ColumnFamily::kMembers:
    case ColumnFamily::kMeta:
      return RowsAre::kOfNoTenant;
    case ColumnFamily::kChildren:
    case ColumnFamily::kCheckpoints:
    case ColumnFamily::kEvents:
    case ColumnFamily::kInflight:
    case ColumnFamily::kWaiting:
    case ColumnFamily::kGrants:
    case ColumnFamily::kParked:
    case ColumnFamily::kPauseRequests:
      return RowsAre::kWorkedOn;
    case ColumnFamily::kPolicies:
    case ColumnFamily::kSchedules:
    case ColumnFamily::kStates:
    case ColumnFamily::kDefinitions:
    case ColumnFamily::kRuns:
    case ColumnFamily::kRunParts:
    case ColumnFamily::kDone:
    case ColumnFamily::kDeadLetters:
    case ColumnFamily::kEventNames:
    case ColumnFamily::kRequests:
    case ColumnFamily::kLabels:
    case ColumnFamily::kKeys:
    case ColumnFamily::kAudit:
    case ColumnFamily::kOperations:
    case ColumnFamily::kTargetStates:
      return RowsAre::kLeft;
  }
  return RowsAre::kOfNoTenant;
}

std::string TenantInKey(absl::string_view key) {
  KeyReader reader(key);
  std::string tenant = reader.Text();
  if (tenant.empty()) tenant = reader.Text();  // the row is that of a deleted schedule
  return reader.ok() ? tenant : std::string();
}

std::string TenantBehindKind(absl::string_view key) {
  KeyReader reader(key);
  if (reader.U8() != 0) return {};
  std::string tenant = reader.Text();
  return reader.ok() ? tenant : std::string();
}

// Users of policies and calendars name no tenant; their schedules are gone, and they with them.
std::string TenantOfPolicyRow(absl::string_view key) {
  KeyReader reader(key);
  const uint8_t kind = reader.U8();
  if (kind == 1 || kind == 3) return {};
  std::string tenant = reader.Text();
  return reader.ok() ? tenant : std::string();
}

template <typename Record>
std::string TenantField(const std::string& value) {
  Record record;
  return record.ParseFromString(value) ? record.tenant() : std::string();
}

std::vector<std::string> TenantsOfClaim(const std::string& value) {
  storage::v1::ClaimRecord claim;
  std::vector<std::string> tenants;
  if (!claim.ParseFromString(value)) return tenants;
  for (const auto& entry : claim.entries()) tenants.push_back(entry.event().tenant());
  return tenants;
}

std::string TenantOfGrant(const std::string& value) {
  storage::v1::GrantRecord grant;
  return grant.ParseFromString(value) ? grant.event().tenant() : std::string();
}

// The tenants whose row it is; "" stands for none.
std::vector<std::string> TenantsOfRow(ColumnFamily cf, const kv::Entry& row,
                                      const TenantPass& pass) {
  switch (cf) {
    case ColumnFamily::kSchedules:
    case ColumnFamily::kLabels:
    case ColumnFamily::kEventNames:
    case ColumnFamily::kDeadLetters:
    case ColumnFamily::kRequests:
    case ColumnFamily::kAudit:
    case ColumnFamily::kOperations:
    case ColumnFamily::kTargetStates:
      return {TenantInKey(row.key)};
    case ColumnFamily::kPolicies:
      return {TenantOfPolicyRow(row.key)};
    case ColumnFamily::kKeys:
      return {TenantBehindKind(row.key)};
    case ColumnFamily::kEvents:
    case ColumnFamily::kParked:
    case ColumnFamily::kDone:
    case ColumnFamily::kRuns:
    case ColumnFamily::kDefinitions:
    case ColumnFamily::kPauseRequests:
      return {std::string(LeadingTenant(row.value))};
    case ColumnFamily::kWaiting:
      if (IsReportKey(row.key)) return {};
      return {std::string(LeadingTenant(row.value))};
    case ColumnFamily::kCheckpoints:
      if (!DecodeLaunchKey(row.key).has_value()) return {};
      return {std::string(LeadingTenant(row.value))};
    case ColumnFamily::kStates:
      return {TenantField<storage::v1::StateRecord>(row.value)};
    case ColumnFamily::kChildren:
      return {TenantField<storage::v1::ChildRecord>(row.value)};
    case ColumnFamily::kInflight: {
      const auto key = DecodeInflightKey(row.key);
      return key.has_value() && key->is_claim() ? TenantsOfClaim(row.value)
                                                : std::vector<std::string>();
    }
    case ColumnFamily::kGrants:
      if (!DecodeGrantKey(row.key).has_value()) return {};
      return {TenantOfGrant(row.value)};
    case ColumnFamily::kRunParts: {
      const auto owner = pass.tenant_of_uid.find(row.key.substr(0, Uid::kBytes));
      if (owner == pass.tenant_of_uid.end()) return {};
      return {owner->second};
    }
    default:
      return {};
  }
}

void NoteWork(ColumnFamily cf, const kv::Entry& row, LeftTenant& left) {
  left.pending = true;
  const auto key = cf == ColumnFamily::kEvents ? DecodeEventKey(row.key) : std::nullopt;
  if (key.has_value()) left.until_micros = std::max(left.until_micros, ToMicros(key->due_time));
}

void DeleteRow(ColumnFamily cf, const kv::Entry& row, const std::string& tenant, TenantPass& pass,
               kv::Commit& commit) {
  LeftTenant& left = pass.tenants[tenant];
  // A refused call may add an entry at any time.
  if (cf != ColumnFamily::kAudit) left.found = true;
  if (cf == ColumnFamily::kStates) pass.tenant_of_uid[row.key] = tenant;
  kv::Group& group = commit.groups.emplace_back();
  group.conditions.push_back(kv::ValueIs(ColumnFamily::kTenants, TenantKey(tenant), left.bytes));
  group.mutations.push_back(kv::Delete(cf, row.key));
}

SweptRows RowsOfDeletedTenants(const PassPtr& pass, ColumnFamily cf) {
  const bool worked_on = RowsOf(cf) == RowsAre::kWorkedOn;
  SweptRows rows{.cf = cf};
  rows.idle = [pass, worked_on] {
    return absl::c_all_of(pass->tenants,
                          [&](const auto& left) { return left.second.pending && !worked_on; });
  };
  rows.delete_old = [pass, cf, worked_on](const kv::ScanResult& page, absl::Time,
                                          kv::Commit& commit) -> std::optional<std::string> {
    for (const kv::Entry& row : page.entries) {
      for (const std::string& tenant : TenantsOfRow(cf, row, *pass)) {
        const auto left = pass->tenants.find(tenant);
        if (left == pass->tenants.end()) continue;
        if (worked_on) {
          NoteWork(cf, row, left->second);
        } else if (!left->second.pending) {
          DeleteRow(cf, row, tenant, *pass, commit);
        }
      }
    }
    return std::nullopt;
  };
  return rows;
}

SweptRows BeginPass(const PassPtr& pass) {
  SweptRows rows{.cf = ColumnFamily::kTenants};
  rows.delete_old = [pass](const kv::ScanResult& page, absl::Time now,
                           kv::Commit&) -> std::optional<std::string> {
    pass->tenant_of_uid.clear();
    for (const kv::Entry& row : page.entries) {
      LeftTenant left;
      left.bytes = row.value;
      if (!left.record.ParseFromString(row.value)) continue;
      const TenantRecord& record = left.record;
      if (record.delete_time_micros() == 0 || record.swept()) continue;
      if (FromMicros(record.pending_until_micros()) > now) continue;
      const std::string tenant = record.tenant();
      pass->tenants.insert_or_assign(tenant, std::move(left));
    }
    return std::nullopt;
  };
  return rows;
}

SweptRows EndPass(const PassPtr& pass) {
  SweptRows rows{.cf = ColumnFamily::kTenants};
  rows.idle = [pass] { return pass->tenants.empty(); };
  rows.delete_old = [pass](const kv::ScanResult& page, absl::Time,
                           kv::Commit& commit) -> std::optional<std::string> {
    for (const kv::Entry& row : page.entries) {
      const auto node = pass->tenants.extract(DecodeTenantKey(row.key).value_or(""));
      if (node.empty()) continue;
      LeftTenant& left = node.mapped();
      const bool clean = !left.pending && !left.found;
      const bool swept = clean && !pass->clean.insert(node.key()).second;
      if (!clean || swept) pass->clean.erase(node.key());
      if (!swept && left.until_micros == left.record.pending_until_micros()) continue;
      left.record.set_swept(swept);
      left.record.set_pending_until_micros(left.until_micros);
      kv::Group& group = commit.groups.emplace_back();
      group.conditions.push_back(kv::ValueIs(ColumnFamily::kTenants, row.key, left.bytes));
      group.mutations.push_back(
          kv::Put(ColumnFamily::kTenants, row.key, left.record.SerializeAsString()));
    }
    return std::nullopt;
  };
  return rows;
}

}  // namespace

std::vector<SweptRows> TenantSweep() {
  const auto pass = std::make_shared<TenantPass>();
  std::vector<SweptRows> swept = {BeginPass(pass)};
  for (const RowsAre rows : {RowsAre::kWorkedOn, RowsAre::kLeft}) {
    for (size_t cf = 0; cf < kv::kColumnFamilyCount; ++cf) {
      if (RowsOf(static_cast<ColumnFamily>(cf)) == rows)
        swept.push_back(RowsOfDeletedTenants(pass, static_cast<ColumnFamily>(cf)));
    }
  }
  swept.push_back(EndPass(pass));
  return swept;
}

}  // namespace escapement::master
