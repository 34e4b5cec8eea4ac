// What the loops of one owned queue shard share, and what all shards of a handler share.
//
// Threads: one, the handler's executor. A callback of the store keeps a weak_ptr to the ShardState
// and does nothing once it is gone: the lease was lost.

#ifndef SERVICES_HANDLER_SHARD_STATE_H_
#define SERVICES_HANDLER_SHARD_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/records/record_cache.h"
#include "common/runtime/runtime.h"
#include "services/handler/claims/claim.h"
#include "services/handler/claims/claim_lead.h"
#include "services/handler/delivery/send_loop.h"
#include "services/handler/granted/granted_claims.h"
#include "services/handler/intake/due_queue.h"
#include "services/handler/metrics.h"
#include "services/handler/options.h"

namespace escapement::handler {

struct HandlerCore {
  const HandlerOptions& options;
  kv::KvClient& client;
  Runtime& runtime;
  std::shared_ptr<Executor> executor;
  RecordCache& cache;
  ClaimLead& lead;
  SendLoop& sends;
  HandlerMetrics& metrics;
  std::function<bool(uint32_t shard)> lease_valid;
  std::function<void()> wake;  // steps all shards soon; cheap, any number of times
  uint64_t last_claim_order = 0;
  kv::Layout layout = {};  // set before the first shard is
};

struct ShardState {
  HandlerCore& core;
  uint16_t shard = 0;
  lease::HeldLease lease = {};
  kv::Condition fence = {};
  ClaimOwner* owner = nullptr;

  DueQueue queue = {};
  // Keys of rows that are in neither the queue nor anybody else's hands: being judged or claimed,
  // waiting for their target, and those of one-off events that are claimed. The loader skips them.
  // Never iterated.
  absl::flat_hash_set<std::string> held = {};
  std::map<uint64_t, std::shared_ptr<Claim>> claims = {};  // by order; those with an open event
  GrantedClaims granted = {};
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_STATE_H_
