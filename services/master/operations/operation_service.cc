#include "services/master/operations/operation_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/dead_letters/operation_table.h"
#include "services/master/errors.h"
#include "services/master/limits.h"
#include "services/master/operations/operation_codec.h"
#include "services/master/operations/operation_filter.h"
#include "services/master/requests/page_budget.h"
#include "services/master/requests/page_token.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/codec/delivery_codec.h"

namespace escapement::master {
namespace {

using storage::v1::OperationRecord;

constexpr size_t kOperationsAtOnce = 1000;

// Reads backwards from the newest operation.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  struct Query {
    std::string begin, end;
    size_t page_size = 0;
    OperationFilter filter;
    std::string list;  // for page tokens
  };

  Listing(MasterContext& context, Query query, Done<v1::ListOperationsResponse> done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kOperations;
    scan.begin = query_.begin;
    scan.end = query_.end;
    scan.reverse = true;
    scan.limit = static_cast<uint32_t>(std::min(kOperationsAtOnce, kListExaminedMax - examined_));
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
      const absl::StatusOr<OperationRecord> record = ReadOperation(row.value);
      if (!record.ok()) return done_(record.status());
      ++examined_;
      v1::Operation operation = ShowOperation(*record);
      if (query_.filter.Matches(operation)) {
        const bool full = static_cast<size_t>(response_.operations_size()) == query_.page_size;
        if (full || !budget_.Take(operation)) return EndPage();
        *response_.add_operations() = std::move(operation);
      }
      query_.end = row.key;
    }
    if (!page.more) return done_(std::move(response_));
    if (examined_ >= kListExaminedMax) return EndPage();
    Step();
  }

  // The next page begins before the last operation that was examined.
  void EndPage() {
    response_.set_next_page_token(EncodePageToken(query_.list, query_.end));
    done_(std::move(response_));
  }

  MasterContext& context_;
  Query query_;
  Done<v1::ListOperationsResponse> done_;
  size_t examined_ = 0;
  v1::ListOperationsResponse response_;
  PageBudget budget_;
};

absl::StatusOr<RecordDecision> DecideCancel(const std::string& name, const std::string& key,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  if (!bytes.has_value()) return NotFound(name);
  absl::StatusOr<OperationRecord> record = ReadOperation(*bytes);
  if (!record.ok()) return record.status();
  RecordDecision decision;
  decision.group.conditions.push_back(kv::ValueIs(kv::ColumnFamily::kOperations, key, *bytes));
  if (record->state() == OperationRecord::RUNNING) {
    record->set_state(OperationRecord::CANCELLED);
    record->set_update_time_micros(std::max(ToMicros(now), record->update_time_micros() + 1));
    record->set_end_time_micros(ToMicros(now));
    decision.group.mutations.push_back(
        kv::Put(kv::ColumnFamily::kOperations, key, record->SerializeAsString()));
  } else if (record->state() != OperationRecord::CANCELLED) {
    return OperationEnded(name);
  }
  decision.response = std::make_unique<v1::Operation>(ShowOperation(*record));
  return decision;
}

}  // namespace

void OperationService::GetOperation(v1::GetOperationRequest request, Done<v1::Operation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<OperationName> name = ParseOperationName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  context_.client.MultiGet(
      {{kv::ColumnFamily::kOperations, OperationKey(name->tenant, name->operation)}},
      context_.executor,
      [name = name->ToString(),
       done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        if (!result->values[0].has_value()) return done(NotFound(name));
        const absl::StatusOr<OperationRecord> record = ReadOperation(*result->values[0]);
        if (!record.ok()) return done(record.status());
        done(ShowOperation(*record));
      });
}

void OperationService::ListOperations(v1::ListOperationsRequest request,
                                      Done<v1::ListOperationsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  std::string list = absl::StrCat("ListOperations ", *tenant, " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> end = DecodePageToken(list, request.page_token());
  absl::StatusOr<OperationFilter> filter = OperationFilter::Read(request.filter());
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", end.status());
  violations.AddStatus("", filter.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const std::string begin = OperationPrefix(*tenant);
  std::make_shared<Listing>(context_,
                            Listing::Query{.begin = begin,
                                           .end = end->empty() ? PrefixEnd(begin) : *end,
                                           .page_size = static_cast<size_t>(*size),
                                           .filter = *std::move(filter),
                                           .list = std::move(list)},
                            std::move(done))
      ->Step();
}

void OperationService::CancelOperation(v1::CancelOperationRequest request,
                                       Done<v1::Operation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<OperationName> name = ParseOperationName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  violations.AddStatus("", name.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RecordChange change{
      .key = {kv::ColumnFamily::kOperations, OperationKey(name->tenant, name->operation)},
      .resource = name->ToString(),
      .mark = MarkOf(name->tenant, "CancelOperation", request, done)};
  change.decide = [resource = change.resource, key = change.key.key](
                      const std::optional<std::string>& bytes, absl::Time now) {
    return DecideCancel(resource, key, bytes, now);
  };
  change.response = std::make_unique<v1::Operation>();
  change.validate_only = request.validate_only();
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

}  // namespace escapement::master
