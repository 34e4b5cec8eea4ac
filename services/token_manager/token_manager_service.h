// TokenManagerService: grants tokens to waiting events. It owns policy shards by lease; of each it
// keeps who waits and who holds, and makes one commit after the other: first what has come in
// (reports, completions, expiries), then grants to those whose turn it is
// (docs/design/throttling.md).
//
// The same class runs in the token manager's process, in standalone and in the simulation.
//
// Threads: Start, Drain, Ready, metrics and grants() from any; everything else happens on an
// executor of its own. Drain (or the loss of the process) comes before destruction; the destructor
// stops the executor.

#ifndef SERVICES_TOKEN_MANAGER_TOKEN_MANAGER_SERVICE_H_
#define SERVICES_TOKEN_MANAGER_TOKEN_MANAGER_SERVICE_H_

#include <memory>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "common/tokens/local_grants.h"
#include "services/token_manager/metrics.h"
#include "services/token_manager/options.h"

namespace escapement::token_manager {

class TokenManagerService {
 public:
  // `store` and `runtime` outlive it.
  TokenManagerService(TokenManagerOptions options, kv::KvStore& store, Runtime& runtime);
  ~TokenManagerService();
  TokenManagerService(const TokenManagerService&) = delete;
  TokenManagerService& operator=(const TokenManagerService&) = delete;

  // Begins to acquire policy shards as soon as the store answers.
  void Start();

  // Grants nothing more, finishes the commit under way, releases the leases, then calls `done` on
  // the service's executor. If the store cannot be reached it does not return: the caller bounds
  // it.
  void Drain(Closure done);

  // True once it takes part: the store has answered and the shares are being balanced.
  bool Ready() const;

  const TokenManagerMetrics& metrics() const;

  // The way of completions to the shards owned here. Lives as long as the service; calls after its
  // destruction began are the caller's bug. `done` is dropped, not run, if the service is destroyed
  // first.
  LocalGrants& grants();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TOKEN_MANAGER_SERVICE_H_
