// OperationService shows and cancels operations; other calls begin them.
//
// Operations: records, and how users see them. Pure.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/operation_service.pb.h"
#include "google/protobuf/message.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/operation_loop.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

// An operation that a call asks for, already validated.
struct NewOperation {
  std::string tenant;
  storage::v1::OperationRecord::Kind kind = storage::v1::OperationRecord::REDRIVE;
  std::string filter = {};
  std::string run = {};                     // the name of a run; empty: all dead letters
  std::vector<std::string> event_ids = {};  // CANCEL_EVENTS without a filter
  double max_per_second = 0;                // 0: no limit
  uint64_t found = 0;                       // dead letters or events that match, as counted
  // Dead letters with this time or an earlier one are meant. No event of the operation is due
  // before it, so the dead letters of events that fail again come later.
  absl::Time time = {};
};
storage::v1::OperationRecord OperationRecordOf(const NewOperation& operation, std::string id);

v1::Operation ShowOperation(const storage::v1::OperationRecord& record);

// DATA_LOSS if the row cannot be read.
absl::StatusOr<storage::v1::OperationRecord> ReadOperation(absl::string_view bytes);

// Begins operations: writes their records, which the masters' loops find.
//
// Threads: the callback runs on the context's executor, and so must the call.

struct OperationRequest {
  NewOperation operation;
  RequestMark mark = {};
  bool validate_only = false;
  // The RPC's response with the operation, and an empty one. Null: the response is the operation.
  std::function<std::unique_ptr<google::protobuf::Message>(v1::Operation)> respond = nullptr;
  std::unique_ptr<google::protobuf::Message> response = nullptr;
};

// RESOURCE_EXHAUSTED (TOO_MANY_OPERATIONS) if the tenant has kOperationsRunningMax running ones, as
// far as `loop` knows. A repeated request gets the first answer.
void BeginOperation(MasterContext& context, const OperationLoop& loop, OperationRequest request,
                    RecordChanged done);

// OperationService: shows and cancels operations. OperationLoop does their work.
//
// Threads: as master_apis.h. No state.

class OperationService {
 public:
  // `context` outlives the service.
  explicit OperationService(MasterContext& context) : context_(context) {}

  void GetOperation(v1::GetOperationRequest request, Done<v1::Operation> done);
  void ListOperations(v1::ListOperationsRequest request, Done<v1::ListOperationsResponse> done);
  void CancelOperation(v1::CancelOperationRequest request, Done<v1::Operation> done);

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_
