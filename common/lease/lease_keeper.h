// LeaseKeeper: an instance's share of the leases of one kind (partitions, queue shards, policy
// shards).
//
// At every beat of `renew_every` (common/kv/engine/store_beat.h) it makes one commit that renews
// all its leases and its member row, reads the members of its kind (and the leases, unless it holds
// all of them), and moves towards its balanced share: with n live members each holds ⌊count / n⌋ or
// ⌈count / n⌉; who has too many releases, who has too few acquires what is free or expired.
// Ownership is decided by the store alone. A lease's record:
//
//   leases: kind "/" index → epoch (u64, big-endian), end (8-byte stamp), owner (text; empty once
//   released)
//
// acquired under the condition that the record is as it was read (absent, or its stamp has passed
// the store's time, or it was released), with epoch + 1 and the stamp store time + ttl. Records are
// never deleted, so epochs only grow. Every commit that a holder makes for the resource carries
// Fence(index) in its fence: after a takeover it no longer applies. (lease_table.h: keys and
// values; lease_plan.h: who gives and takes.)
//
// The holder's own view of the end counts from when the request was *sent*, less a margin: Valid()
// turns false before the store lets anyone steal.
//
// Threads: all methods and callbacks on the executor given to the constructor.

#ifndef COMMON_LEASE_LEASE_KEEPER_H_
#define COMMON_LEASE_LEASE_KEEPER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::lease {

struct HeldLease {
  uint32_t index = 0;
  uint64_t epoch = 0;
  // The store's time after which the former owner has begun nothing more: its lease's end, or when
  // it released it in order. InfinitePast if there was none.
  absl::Time former_owner_end = absl::InfinitePast();
};

class LeaseKeeper {
 public:
  struct Options {
    std::string kind;      // "partition", "queue_shard", "policy_shard"
    uint32_t count = 0;    // leases 0 … count-1
    std::string instance;  // unique for each start of a process
    absl::Duration ttl = absl::Seconds(5);
    absl::Duration renew_every = absl::Seconds(1);
    // Valid() ends this much before the ttl counted from the request.
    absl::Duration margin = absl::Milliseconds(200);
  };
  struct Callbacks {
    absl::AnyInvocable<void(const HeldLease&)> on_acquired;
    // The lease has ended (lost, or about to be released for balance): drop all state of it at
    // once.
    absl::AnyInvocable<void(uint32_t index)> on_lost;
    // Optional: the balance wants the lease given up. The holder stops taking work, brings to an
    // end what is under way, and calls `release` on the executor; until then it is renewed. Without
    // it the lease is released at once.
    absl::AnyInvocable<void(uint32_t index, Closure release)> on_release_wanted;
  };

  // `client` and `runtime` outlive the keeper.
  LeaseKeeper(kv::KvClient& client, Runtime& runtime, std::shared_ptr<Executor> executor,
              Options options, Callbacks callbacks);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  void Start();

  // Stops renewing and acquiring, calls on_lost for all, releases them and the member row in one
  // commit, then `done`.
  void Release(Closure done);

  // Forgets all leases without releasing them (the session was lost); on_lost is called for each;
  // goes on acquiring.
  void DropAll();

  // True while nobody else can hold the lease. May turn true again when a late renewal still found
  // it ours.
  bool Valid(uint32_t index) const;

  // The condition for the fence of each commit that writes for the resource. Must be held.
  kv::Condition Fence(uint32_t index) const;

  // Ascending.
  std::vector<uint32_t> Held() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::lease

#endif  // COMMON_LEASE_LEASE_KEEPER_H_
