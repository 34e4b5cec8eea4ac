// HostedTokenManager: a TokenManagerService with its flags and the door at which consumers give
// tokens back. The token manager process and standalone host it.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_HOSTED_TOKEN_MANAGER_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_HOSTED_TOKEN_MANAGER_H_

#include <memory>

#include "common/auth/platform_gate.h"
#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/tokens/token_door.h"
#include "common/tokens/token_grpc.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::token_manager {

class HostedTokenManager final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedTokenManager(const ServiceContext& context, kv::KvStore& store);

  // TokenService. In standalone the master serves it, over this door.
  void AddRpcs(RpcTable& table) override { AddTokenRpcs(door_, table); }
  TokenApi& door() { return door_; }
  CallGate& gate() override { return gate_.gate(); }
  absl::Status Start() override;
  bool Ready() override { return service_.Ready() && door_.Ready() && gate_.Ready(); }
  ShardedService* sharded() override { return &service_.sharded(); }
  // Drains the door while the service still handles its calls, then the service.
  void Drain(Closure done) override;

 private:
  // The order matters: the door uses the service, and is destroyed first.
  TokenManagerService service_;
  TokenDoor door_;
  auth::HostedGate gate_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_HOSTED_TOKEN_MANAGER_H_
