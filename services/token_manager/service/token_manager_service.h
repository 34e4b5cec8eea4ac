// TokenManagerService: grants tokens to waiting events. It owns policy shards by lease. For each
// shard it keeps the waiting rows and the holders of tokens, and makes one commit after the other:
// first reports, completions and expiries, then grants in turn (docs/design/throttling.md).
//
// The same class runs in the token manager's process, in standalone and in the simulation.
//
// Threads: all methods may be called from any thread. The work happens on the service's own
// executor, which the destructor stops.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_

#include <memory>

#include "common/auth/platform_gate.h"
#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/runtime/runtime.h"
#include "common/tokens/token_door.h"
#include "common/tokens/token_grpc.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/base/options.h"

namespace escapement::token_manager {

class TokenManagerService {
 public:
  // `store` and `runtime` must outlive it.
  TokenManagerService(TokenManagerOptions options, kv::KvStore& store, Runtime& runtime);
  ~TokenManagerService();
  TokenManagerService(const TokenManagerService&) = delete;
  TokenManagerService& operator=(const TokenManagerService&) = delete;

  // Begins to acquire policy shards as soon as the store answers.
  void Start();

  // Makes no further grants, finishes the commits under way, releases the leases, then calls `done`
  // on the service's executor. While the store cannot be reached, `done` is not called; the caller
  // bounds that.
  void Drain(Closure done);

  // True once the store has answered and the shares are being balanced.
  bool Ready() const;

  const TokenManagerMetrics& metrics() const;

  // Takes completions for the shards owned here. Lives as long as the service and must not be
  // called once the destructor has begun. `done` is dropped, not run, if the service is destroyed
  // first.
  LocalGrants& grants();

  // Lives as long as this.
  ShardedService& sharded();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// HostedTokenManager: a TokenManagerService with its flags and the door at which consumers give
// tokens back. The token manager process and standalone host it.
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

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_
