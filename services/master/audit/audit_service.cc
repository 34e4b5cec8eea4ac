#include "services/master/audit/audit_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {

namespace {

constexpr FilterField kAuditFields[] = {{.name = "principal", .prefix = true},
                                        {.name = "method", .prefix = true},
                                        {.name = "resource", .prefix = true},
                                        {.name = "result", .prefix = true},
                                        {.name = "time"}};

v1::AuditEntry ShowEntry(const AuditName& name, const storage::v1::AuditRecord& record) {
  v1::AuditEntry entry;
  entry.set_name(absl::StrCat("tenants/", name.tenant, "/auditEntries/", ToMicros(name.place.time),
                              "-", name.place.hash.ToHex()));
  SetTimestamp(record.time_micros(), *entry.mutable_time());
  entry.set_principal(record.principal());
  entry.set_role(static_cast<v1::Access::Role>(record.role()));
  entry.set_source(record.source());
  entry.set_method(record.method());
  entry.set_resource(record.resource());
  entry.set_request_id(record.request_id());
  entry.set_version_before(static_cast<int64_t>(record.version_before()));
  entry.set_version_after(static_cast<int64_t>(record.version_after()));
  entry.set_result(absl::StatusCodeToString(static_cast<absl::StatusCode>(record.code())));
  entry.set_reason(record.reason());
  return entry;
}

}  // namespace

void AuditService::ListAuditEntries(v1::ListAuditEntriesRequest request,
                                    Done<v1::ListAuditEntriesResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantOrAll(request.parent(), "parent");
  std::string list = absl::StrCat("ListAuditEntries ", request.parent(), " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> end = DecodePageToken(list, request.page_token());
  const absl::StatusOr<ListFilter> filter =
      ListFilter::Read<v1::AuditEntry>(request.filter(), "", kAuditFields);
  FieldViolations violations;
  violations.AddStatus("", tenant.status());
  violations.AddStatus("", size.status());
  violations.AddStatus("", end.status());
  violations.AddStatus("", filter.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const FilterTimes times = filter->TimesOf("time");
  if (end->empty()) *end = AuditKeyFrom(*tenant, times.end);
  ListRows(
      context_,
      {.cf = kv::ColumnFamily::kAudit,
       .begin = AuditKeyFrom(*tenant, times.begin),
       .end = *std::move(end),
       .backwards = true,  // from the newest entry
       .page_size = static_cast<size_t>(*size),
       .list = std::move(list),
       .also = home_},
      &v1::ListAuditEntriesResponse::mutable_audit_entries,
      [filter = *filter](kv::Entry row) -> absl::StatusOr<std::optional<v1::AuditEntry>> {
        const auto name = DecodeAuditKey(row.key);
        storage::v1::AuditRecord record;
        if (!name.has_value() || !record.ParseFromString(row.value))
          return BrokenRecord("an audit entry");
        v1::AuditEntry entry = ShowEntry(*name, record);
        if (!filter.Matches(entry)) return std::nullopt;
        return entry;
      },
      std::move(done));
}

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
