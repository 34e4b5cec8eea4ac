// OperationService: shows and cancels operations. OperationLoop does their work.
//
// Threads: as OperationApi. No state.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_

#include "services/master/api/operation_api.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class OperationService final : public OperationApi {
 public:
  // `context` outlives the service.
  explicit OperationService(MasterContext& context) : context_(context) {}

  void GetOperation(v1::GetOperationRequest request, Done<v1::Operation> done) override;
  void ListOperations(v1::ListOperationsRequest request,
                      Done<v1::ListOperationsResponse> done) override;
  void CancelOperation(v1::CancelOperationRequest request, Done<v1::Operation> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_SERVICE_H_
