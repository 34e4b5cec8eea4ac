// The RPCs of a master.

#ifndef SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
#define SERVICES_MASTER_SERVICE_MASTER_GRPC_H_

namespace escapement {
class RpcTable;
}

namespace escapement::master {

class CellMasters;

// Adds all services of the public API but those of tokens and the store. A call goes to the cell of
// its tenant. `masters` outlives the server.
void AddMasterRpcs(CellMasters& masters, RpcTable& table);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_MASTER_GRPC_H_
