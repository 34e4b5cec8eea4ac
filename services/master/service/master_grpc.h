// The RPCs of a master.

#ifndef SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
#define SERVICES_MASTER_SERVICE_MASTER_GRPC_H_

namespace escapement {
class RpcTable;
}

namespace escapement::master {

class MasterService;

// Adds all services of the public API. `master` outlives the server.
void AddMasterRpcs(MasterService& master, RpcTable& table);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
