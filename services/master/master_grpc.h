// The master's RPCs over its APIs.

#ifndef SERVICES_MASTER_MASTER_GRPC_H_
#define SERVICES_MASTER_MASTER_GRPC_H_

#include "services/master/api/event_api.h"
#include "services/master/api/policy_api.h"
#include "services/master/api/run_api.h"
#include "services/master/api/schedule_api.h"

namespace escapement {
class RpcTable;
}

namespace escapement::master {

// The APIs of one master.
struct MasterApis {
  ScheduleApi& schedules;
  EventApi& events;
  RunApi& runs;
  PolicyApi& policies;
};

// Adds ScheduleService, EventService, RunService and PolicyService. The APIs outlive the server.
void AddMasterRpcs(const MasterApis& apis, RpcTable& table);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_MASTER_GRPC_H_
