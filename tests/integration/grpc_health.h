// CheckHealth: asks the gRPC health service of a port.

#ifndef TESTS_INTEGRATION_GRPC_HEALTH_H_
#define TESTS_INTEGRATION_GRPC_HEALTH_H_

#include <optional>
#include <string>

#include "common/tls/peer_tls.h"

namespace escapement::integration {

enum class Health { kUnreachable, kServing, kNotServing };

Health CheckHealth(const std::string& address, std::optional<PeerTls> tls = std::nullopt);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_GRPC_HEALTH_H_
