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
#include "common/storage/operation_table.h"
#include "services/master/base/errors.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/operations/operation_codec.h"
#include "services/master/operations/operation_filter.h"
#include "services/master/requests/page_token.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {
namespace {

using storage::v1::OperationRecord;

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
  ListRows(
      context_,
      {.cf = kv::ColumnFamily::kOperations,
       .begin = begin,
       .end = end->empty() ? PrefixEnd(begin) : *end,
       .backwards = true,  // from the newest operation
       .page_size = static_cast<size_t>(*size),
       .list = std::move(list)},
      &v1::ListOperationsResponse::mutable_operations,
      [filter = *std::move(filter)](kv::Entry row) -> absl::StatusOr<std::optional<v1::Operation>> {
        const absl::StatusOr<OperationRecord> record = ReadOperation(row.value);
        if (!record.ok()) return record.status();
        v1::Operation operation = ShowOperation(*record);
        if (!filter.Matches(operation)) return std::nullopt;
        return operation;
      },
      std::move(done));
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
