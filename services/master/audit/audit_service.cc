#include "services/master/audit/audit_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/access_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/audit/audit_filter.h"
#include "services/master/base/errors.h"
#include "services/master/requests/page_token.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {
namespace {

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
  absl::StatusOr<AuditFilter> filter = AuditFilter::Read(request.filter());
  FieldViolations violations;
  violations.AddStatus("", tenant.status());
  violations.AddStatus("", size.status());
  violations.AddStatus("", end.status());
  violations.AddStatus("", filter.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  if (end->empty()) *end = AuditKeyFrom(*tenant, filter->end());
  ListRows(
      context_,
      {.cf = kv::ColumnFamily::kAudit,
       .begin = AuditKeyFrom(*tenant, filter->begin()),
       .end = *std::move(end),
       .backwards = true,  // from the newest entry
       .page_size = static_cast<size_t>(*size),
       .list = std::move(list)},
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

}  // namespace escapement::master
