// ExplainService: says why an event waits, or where its time went, and when and why a schedule
// fires next. It reads the records that the services decide from; it asks no service.
//
// Threads: as master_apis.h. No state.

#ifndef SERVICES_MASTER_EXPLAIN_EXPLAIN_SERVICE_H_
#define SERVICES_MASTER_EXPLAIN_EXPLAIN_SERVICE_H_

#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/explanation.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class ExplainService {
 public:
  // `context` outlives the service.
  explicit ExplainService(MasterContext& context) : context_(context) {}

  void ExplainEvent(v1::ExplainEventRequest request, Done<v1::EventExplanation> done);
  void ExplainSchedule(v1::ExplainScheduleRequest request, Done<v1::ScheduleExplanation> done);

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EXPLAIN_EXPLAIN_SERVICE_H_
