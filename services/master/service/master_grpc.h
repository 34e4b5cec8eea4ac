// The master's RPCs over its APIs.

#ifndef SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
#define SERVICES_MASTER_SERVICE_MASTER_GRPC_H_

#include "services/master/api/master_apis.h"

namespace escapement {
class RpcTable;
}

namespace escapement::master {

// Adds the services of all APIs. The APIs outlive the server.
void AddMasterRpcs(const MasterApis& apis, RpcTable& table);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
