// MasterGrpc: the master's gRPC services over its APIs. The only place of the master that knows
// gRPC.
//
// Threads: gRPC's own call the APIs; answers go out from wherever the API gives them.

#ifndef SERVICES_MASTER_MASTER_GRPC_H_
#define SERVICES_MASTER_MASTER_GRPC_H_

#include <memory>
#include <vector>

#include "services/master/api/event_api.h"
#include "services/master/api/policy_api.h"
#include "services/master/api/run_api.h"
#include "services/master/api/schedule_api.h"

namespace grpc {
class Service;
}

namespace escapement::master {

class MasterGrpc {
 public:
  // The APIs outlive it; the server they are registered with is shut down before it is destroyed.
  MasterGrpc(ScheduleApi& schedules, EventApi& events, RunApi& runs, PolicyApi& policies);
  ~MasterGrpc();
  MasterGrpc(const MasterGrpc&) = delete;
  MasterGrpc& operator=(const MasterGrpc&) = delete;

  // ScheduleService, EventService, RunService, PolicyService: for the server's builder.
  std::vector<grpc::Service*> services();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_MASTER_GRPC_H_
