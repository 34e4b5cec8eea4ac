// CheckHealth: asks the gRPC health service of a port.

#ifndef TESTS_INTEGRATION_GRPC_HEALTH_H_
#define TESTS_INTEGRATION_GRPC_HEALTH_H_

#include <string>

namespace escapement::integration {

enum class Health { kUnreachable, kServing, kNotServing };

Health CheckHealth(const std::string& address);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_GRPC_HEALTH_H_
