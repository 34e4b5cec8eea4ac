#include "services/master/operations/operation_codec.h"

#include <utility>

#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "common/storage/dead_letter_table.h"
#include "services/master/base/errors.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

storage::v1::OperationRecord OperationRecordOf(const NewOperation& operation, std::string id) {
  storage::v1::OperationRecord record;
  record.set_tenant(operation.tenant);
  record.set_operation_id(std::move(id));
  record.set_kind(operation.kind);
  record.set_state(storage::v1::OperationRecord::RUNNING);
  record.set_filter(operation.filter);
  record.set_run(operation.run);
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

}  // namespace escapement::master
