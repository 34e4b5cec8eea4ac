// Operations: records, and how users see them. Pure.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_CODEC_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/operation_service.pb.h"

namespace escapement::master {

// An operation that a call asks for, already validated.
struct NewOperation {
  std::string tenant;
  storage::v1::OperationRecord::Kind kind = storage::v1::OperationRecord::REDRIVE;
  std::string filter = {};
  std::string run = {};       // the name of a run; empty: all dead letters
  double max_per_second = 0;  // 0: no limit
  uint64_t found = 0;         // dead letters that match, as counted
  // Dead letters with this time or an earlier one are meant. No event of the operation is due
  // before it, so the dead letters of events that fail again come later.
  absl::Time time = {};
};
storage::v1::OperationRecord OperationRecordOf(const NewOperation& operation, std::string id);

v1::Operation ShowOperation(const storage::v1::OperationRecord& record);

// DATA_LOSS if the row cannot be read.
absl::StatusOr<storage::v1::OperationRecord> ReadOperation(absl::string_view bytes);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_CODEC_H_
