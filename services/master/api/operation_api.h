// OperationApi: what the master promises about operations. The contract of each method is that of
// its RPC in escapement/v1/operation_service.proto; errors carry the details of
// common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_OPERATION_API_H_
#define SERVICES_MASTER_API_OPERATION_API_H_

#include "escapement/v1/operation_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class OperationApi {
 public:
  virtual ~OperationApi() = default;

  virtual void GetOperation(v1::GetOperationRequest request, Done<v1::Operation> done) = 0;
  virtual void ListOperations(v1::ListOperationsRequest request,
                              Done<v1::ListOperationsResponse> done) = 0;
  virtual void CancelOperation(v1::CancelOperationRequest request, Done<v1::Operation> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_OPERATION_API_H_
