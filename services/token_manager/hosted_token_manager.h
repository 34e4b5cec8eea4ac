// HostedTokenManager: a TokenManagerService with the consumers' door to it, flags and metrics, as a
// process hosts it: the token manager's own and standalone.

#ifndef SERVICES_TOKEN_MANAGER_HOSTED_TOKEN_MANAGER_H_
#define SERVICES_TOKEN_MANAGER_HOSTED_TOKEN_MANAGER_H_

#include <memory>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/service/service_process.h"
#include "common/tokens/token_door.h"
#include "common/tokens/token_grpc.h"
#include "services/token_manager/token_manager_service.h"

namespace escapement::token_manager {

class HostedTokenManager final : public HostedService {
 public:
  // Both outlive it.
  HostedTokenManager(const ServiceContext& context, kv::KvStore& store);

  // TokenService.
  std::vector<grpc::Service*> GrpcServices() override { return {door_grpc_.service()}; }
  absl::Status Start() override;
  bool Ready() override { return service_.Ready() && door_.Ready(); }
  // First the door, while its owner still acts, then the leases.
  void Drain(Closure done) override;

 private:
  // Destroyed in the reverse order.
  TokenManagerService service_;
  TokenDoor door_;
  TokenGrpc door_grpc_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOSTED_TOKEN_MANAGER_H_
