// State that the loops of one owned queue shard share (QueueShardState), and state that all shards
// of a handler share (HandlerCore).
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SHARD_SHARD_STATE_H_
#define SERVICES_HANDLER_SHARD_SHARD_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/records/record_cache.h"
#include "common/runtime/runtime.h"
#include "common/statistics/minute_sums.h"
#include "services/handler/base/metrics.h"
#include "services/handler/base/options.h"
#include "services/handler/sending/claim.h"
#include "services/handler/sending/send_loop.h"
#include "services/handler/shard/due_queue.h"
#include "services/handler/shard/granted_claims.h"
#include "services/handler/target_health/target_pace.h"

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
  MinuteSums& statistics;
  std::function<bool(uint32_t shard)> lease_valid;
  std::function<void()> wake;  // steps all shards soon; cheap, may be called any number of times
  std::function<void()> drop_leases;  // see ShardedService::DropLeases
  GrantPauses grant_pauses = {};
  uint64_t last_claim_order = 0;
  bool suspect_out = false;  // an event is being sent alone (claims/suspect_loop.h)
  kv::Layout layout = {};    // set before the first shard is made
};

// HeldKeys: keys of rows that a loop of the shard works on. A key shares the bytes of its row.
//
// Threads: one, the handler's executor.
class HeldKeys {
 public:
  // Both return false if the key is held already.
  bool Add(const QueuedRow& row) { return Add(row.key(), row.Share()); }
  bool Add(std::string key) {
    auto kept = std::make_shared<const std::string>(std::move(key));
    return Add(*kept, kept);
  }
  // False if the key is not held.
  bool Remove(absl::string_view key) { return keys_.erase(key) == 1; }
  bool contains(absl::string_view key) const { return keys_.contains(key); }

 private:
  struct Held {
    absl::string_view key;
    std::shared_ptr<const void> bytes;  // keeps the bytes of `key`
    size_t hash;
  };
  bool Add(absl::string_view key, std::shared_ptr<const void> bytes) {
    return keys_.insert({key, std::move(bytes), Hash()(key)}).second;
  }
  static absl::string_view KeyOf(const Held& held) { return held.key; }
  static absl::string_view KeyOf(absl::string_view key) { return key; }
  struct Hash {
    using is_transparent = void;
    size_t operator()(absl::string_view key) const { return absl::Hash<absl::string_view>()(key); }
    size_t operator()(const Held& held) const { return held.hash; }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return KeyOf(a) == KeyOf(b);
    }
  };
  absl::flat_hash_set<Held, Hash, Equal> keys_;  // never iterated
};

// The Shard owns it, and the shard's loops keep a plain reference. Callbacks that may run after the
// lease is lost (of the store, of timers) are wrapped by WhileOwned.
struct QueueShardState : public std::enable_shared_from_this<QueueShardState> {
  QueueShardState(HandlerCore& core, const lease::HeldLease& lease, kv::Condition fence,
                  ClaimOwner* owner)
      : core(core),
        shard(static_cast<uint16_t>(lease.index)),
        lease(lease),
        fence(std::move(fence)),
        owner(owner) {}

  // Wraps a callback of the shard or of one of its loops: once the shard is gone, the call does
  // nothing.
  template <typename Callback>
  auto WhileOwned(Callback callback) {
    return [weak = weak_from_this(), callback = std::move(callback)](auto&&... args) mutable {
      if (const std::shared_ptr<QueueShardState> owned = weak.lock(); owned != nullptr)
        callback(std::forward<decltype(args)>(args)...);
    };
  }

  // The store refused a commit, and not for want of room. Usually the lease or the session is lost
  // and the shard is about to be dropped. If the lease was renewed since then, all shards are
  // loaded again.
  void OnRefused() {
    core.executor->PostAfter(core.options.lease_ttl, WhileOwned([this] {
                               if (core.lease_valid(shard)) core.drop_leases();
                             }));
  }

  // Takes the key of a row out of `held`. The key must be there.
  void Release(absl::string_view key) { CHECK(held.Remove(key)) << "a key was not held"; }

  // Adds a claim, a new one or one of a former owner. It stays until its last event has ended.
  void AddClaim(const std::shared_ptr<Claim>& claim) {
    claim->order = ++core.last_claim_order;
    claim->owner = owner;
    CHECK(claims.emplace(claim->order, claim).second);
  }

  HandlerCore& core;
  const uint16_t shard;
  const lease::HeldLease lease;
  const kv::Condition fence;
  ClaimOwner* const owner;

  DueQueue queue = {};
  // Keys of the rows that a loop of this shard works on: rows being judged, claimed or ended, rows
  // that wait for their target, and rows of claimed one-off events. The loader skips these keys.
  HeldKeys held = {};
  std::map<uint64_t, std::shared_ptr<Claim>> claims = {};  // by order; claims with an open event
  GrantedClaims granted = {};
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_SHARD_STATE_H_
