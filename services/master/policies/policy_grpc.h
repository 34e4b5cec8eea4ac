// PolicyService on the wire.
//
// Threads: gRPC's own call the API; answers go out from wherever the API gives them.

#ifndef SERVICES_MASTER_POLICIES_POLICY_GRPC_H_
#define SERVICES_MASTER_POLICIES_POLICY_GRPC_H_

#include <memory>

#include "services/master/api/policy_api.h"

namespace grpc {
class Service;
}

namespace escapement::master {

// `policies` outlives it.
std::unique_ptr<grpc::Service> NewPolicyGrpc(PolicyApi& policies);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_GRPC_H_
