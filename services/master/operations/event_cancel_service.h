// EventCancelService: BatchCancelEvents of the API of events. It begins operations.
//
// Threads: as master_apis.h. No state.

#ifndef SERVICES_MASTER_OPERATIONS_EVENT_CANCEL_SERVICE_H_
#define SERVICES_MASTER_OPERATIONS_EVENT_CANCEL_SERVICE_H_

#include "escapement/v1/event_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/operation_loop.h"

namespace escapement::master {

class EventCancelService {
 public:
  // `context` and `loop` outlive the service.
  EventCancelService(MasterContext& context, const OperationLoop& loop)
      : context_(context), loop_(loop) {}

  void BatchCancelEvents(v1::BatchCancelEventsRequest request, Done<v1::Operation> done);

 private:
  MasterContext& context_;
  const OperationLoop& loop_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_EVENT_CANCEL_SERVICE_H_
