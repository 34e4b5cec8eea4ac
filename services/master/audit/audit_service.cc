#include "services/master/audit/audit_service.h"

#include <algorithm>
#include <memory>
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
#include "services/master/errors.h"
#include "services/master/limits.h"
#include "services/master/requests/page_budget.h"
#include "services/master/requests/page_token.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

// Entries that are read together.
constexpr size_t kEntriesAtOnce = 1000;

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

// Reads backwards from the newest entry.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  struct Query {
    std::string tenant;
    std::string end;  // key before which the page begins
    size_t page_size = 0;
    AuditFilter filter;
    std::string list;  // for page tokens
  };

  Listing(MasterContext& context, Query query, Done<v1::ListAuditEntriesResponse> done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kAudit;
    scan.begin = AuditKeyFrom(query_.tenant, query_.filter.begin());
    scan.end = query_.end;
    scan.reverse = true;
    scan.limit = static_cast<uint32_t>(std::min(kEntriesAtOnce, kListExaminedMax - examined_));
    if (scan.begin >= scan.end) return done_(std::move(response_));
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*page);
                         });
  }

 private:
  void OnPage(const kv::ScanResult& page) {
    for (const kv::Entry& row : page.entries) {
      const auto name = DecodeAuditKey(row.key);
      storage::v1::AuditRecord record;
      if (!name.has_value() || !record.ParseFromString(row.value))
        return done_(BrokenRecord("an audit entry"));
      ++examined_;
      v1::AuditEntry entry = ShowEntry(*name, record);
      if (query_.filter.Matches(entry)) {
        const bool full = static_cast<size_t>(response_.audit_entries_size()) == query_.page_size;
        if (full || !budget_.Take(entry)) return EndPage();
        *response_.add_audit_entries() = std::move(entry);
      }
      query_.end = row.key;
    }
    if (!page.more) return done_(std::move(response_));
    if (examined_ >= kListExaminedMax) return EndPage();
    Step();
  }

  // The next page begins before the last entry that was examined.
  void EndPage() {
    response_.set_next_page_token(EncodePageToken(query_.list, query_.end));
    done_(std::move(response_));
  }

  MasterContext& context_;
  Query query_;
  Done<v1::ListAuditEntriesResponse> done_;
  size_t examined_ = 0;
  v1::ListAuditEntriesResponse response_;
  PageBudget budget_;
};

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
  std::make_shared<Listing>(context_,
                            Listing::Query{.tenant = *tenant,
                                           .end = *std::move(end),
                                           .page_size = static_cast<size_t>(*size),
                                           .filter = *std::move(filter),
                                           .list = std::move(list)},
                            std::move(done))
      ->Step();
}

}  // namespace escapement::master
