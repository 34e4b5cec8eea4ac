// Begins operations: writes their records, which the masters' loops find.
//
// Threads: the callback runs on the context's executor, and so must the call.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_CREATE_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_CREATE_H_

#include <functional>
#include <memory>

#include "escapement/v1/operation_service.pb.h"
#include "google/protobuf/message.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/operation_codec.h"
#include "services/master/operations/operation_loop.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

struct OperationRequest {
  NewOperation operation;
  RequestMark mark = {};
  bool validate_only = false;
  // The RPC's response with the operation, and an empty one.
  std::function<std::unique_ptr<google::protobuf::Message>(v1::Operation)> respond = nullptr;
  std::unique_ptr<google::protobuf::Message> response = nullptr;
};

// RESOURCE_EXHAUSTED (TOO_MANY_OPERATIONS) if the tenant has kOperationsRunningMax running ones, as
// far as `loop` knows. A repeated request gets the first answer.
void BeginOperation(MasterContext& context, const OperationLoop& loop, OperationRequest request,
                    RecordChanged done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_CREATE_H_
