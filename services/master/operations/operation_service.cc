#include "services/master/operations/operation_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {

storage::v1::OperationRecord OperationRecordOf(const NewOperation& operation, std::string id) {
  storage::v1::OperationRecord record;
  record.set_tenant(operation.tenant);
  record.set_operation_id(std::move(id));
  record.set_kind(operation.kind);
  record.set_state(storage::v1::OperationRecord::RUNNING);
  // Tabs and line feeds between its words become blanks; values of a filter have none.
  record.set_filter(CleanText(operation.filter, kFilterBytesMax));
  record.set_run(operation.run);
  record.mutable_event_ids()->Assign(operation.event_ids.begin(), operation.event_ids.end());
  record.set_max_per_second(operation.max_per_second);
  const absl::Time after = operation.time + absl::Microseconds(1);
  record.set_end(DeadLetterKeyFrom(operation.tenant, after));
  record.set_next_step_micros(ToMicros(after));
  record.set_found(operation.found);
  record.set_create_time_micros(ToMicros(operation.time));
  record.set_update_time_micros(ToMicros(operation.time));
  return record;
}

v1::Operation ShowOperation(const storage::v1::OperationRecord& record) {
  v1::Operation shown;
  shown.set_name(OperationName{record.tenant(), record.operation_id()}.ToString());
  // The values of both enums are the same.
  shown.set_kind(static_cast<v1::Operation::Kind>(record.kind()));
  shown.set_state(static_cast<v1::Operation::State>(record.state()));
  shown.set_filter(record.filter());
  shown.set_run(record.run());
  shown.set_max_per_second(record.max_per_second());
  shown.set_total_count(static_cast<int64_t>(record.found()));
  shown.set_done_count(static_cast<int64_t>(record.done()));
  shown.set_failed_count(static_cast<int64_t>(record.refused()));
  shown.set_last_failure(record.last_refusal());
  SetTimestamp(record.create_time_micros(), *shown.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *shown.mutable_update_time());
  if (record.end_time_micros() != 0)
    SetTimestamp(record.end_time_micros(), *shown.mutable_end_time());
  shown.set_error(record.error());
  return shown;
}

absl::StatusOr<storage::v1::OperationRecord> ReadOperation(absl::string_view bytes) {
  storage::v1::OperationRecord record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return BrokenRecord("an operation");
  return record;
}

namespace {

constexpr FilterField kOperationFields[] = {{.name = "state"}, {.name = "kind"}};

}  // namespace

void BeginOperation(MasterContext& context, const OperationLoop& loop, OperationRequest request,
                    RecordChanged done) {
  const std::string tenant = request.operation.tenant;
  const std::string id = NewOperationId(request.operation.time, context.runtime.random().Next());
  RecordChange change{.key = {kv::ColumnFamily::kOperations, OperationKey(tenant, id)},
                      .resource = OperationName{tenant, id}.ToString(),
                      .mark = std::move(request.mark)};
  change.response =
      request.response == nullptr ? std::make_unique<v1::Operation>() : std::move(request.response);
  change.validate_only = request.validate_only;
  change.decide =
      [&loop, tenant, key = change.key.key, record = OperationRecordOf(request.operation, id),
       respond = std::move(request.respond)](const std::optional<std::string>&,
                                             absl::Time) -> absl::StatusOr<RecordDecision> {
    if (loop.RunningOf(tenant) >= kOperationsRunningMax)
      return TooManyOperations(absl::StrCat("tenants/", tenant));
    RecordDecision decision;
    decision.group.conditions.push_back(kv::Absent(kv::ColumnFamily::kOperations, key));
    decision.group.mutations.push_back(
        kv::Put(kv::ColumnFamily::kOperations, key, record.SerializeAsString()));
    decision.response = respond == nullptr ? std::make_unique<v1::Operation>(ShowOperation(record))
                                           : respond(ShowOperation(record));
    return decision;
  };
  ChangeRecord(context, std::move(change), std::move(done));
}

namespace {

using storage::v1::OperationRecord;

absl::StatusOr<RecordDecision> DecideCancel(const std::string& name, const std::string& key,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  if (!bytes.has_value()) return NotFound(name);
  ASSIGN_OR_RETURN(OperationRecord record, ReadOperation(*bytes));
  RecordDecision decision;
  decision.group.conditions.push_back(kv::ValueIs(kv::ColumnFamily::kOperations, key, *bytes));
  if (record.state() == OperationRecord::RUNNING) {
    record.set_state(OperationRecord::CANCELLED);
    record.set_update_time_micros(std::max(ToMicros(now), record.update_time_micros() + 1));
    record.set_end_time_micros(ToMicros(now));
    decision.group.mutations.push_back(
        kv::Put(kv::ColumnFamily::kOperations, key, record.SerializeAsString()));
  } else if (record.state() != OperationRecord::CANCELLED) {
    return OperationEnded(name);
  }
  decision.response = std::make_unique<v1::Operation>(ShowOperation(record));
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
  absl::StatusOr<ListFilter> filter =
      ListFilter::Read<v1::Operation>(request.filter(), *tenant, kOperationFields);
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
        ASSIGN_OR_RETURN(const OperationRecord record, ReadOperation(row.value));
        v1::Operation operation = ShowOperation(record);
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
