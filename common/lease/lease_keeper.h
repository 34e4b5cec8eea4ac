// LeaseKeeper: keeps an instance's share of the leases of one kind (partitions, queue shards,
// policy shards).
//
// At every beat of `renew_every` (common/kv/engine/store_beat.h) it makes one commit that renews
// all its leases and its member row. Then it reads the members of its kind, and the leases unless
// it holds all of them, and moves towards its balanced share. With n live members each holds ⌊count
// / n⌋ or ⌈count / n⌉ leases. An instance with too many releases some; one with too few acquires
// leases that are free or expired.
//
// Only the store decides ownership. The record of a lease is
//
//   leases: kind "/" index → epoch (u64, big-endian), end (8-byte stamp), owner (text; empty once
//   released)
//
// To acquire a lease, an instance writes epoch + 1 and the stamp store time + ttl. The condition is
// that the record is as it was read: absent, released, or with a stamp that store time has passed.
// Records are never deleted, so epochs only grow. Each commit that a holder makes for the resource
// has Fence(index) in its fence: after a takeover it no longer applies. (lease_table.h has the keys
// and values, and decides who releases and who acquires.)
//
// The holder counts the end from the time when it *sent* the request, less a margin. So Valid()
// turns false before the store lets another instance take the lease.
//
// Threads: all methods and callbacks run on the executor given to the constructor.

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
  // The former owner starts no work after this store time: it is the end of its lease, or the time
  // at which it released the lease. InfinitePast if there was no owner.
  absl::Time former_owner_end = absl::InfinitePast();
  // The former owner was another instance that did not release the lease: it has died, or was cut
  // off for longer than the ttl.
  bool former_owner_lost = false;
  // It is one of Options::dead_instances.
  bool former_owner_dead = false;
};

class LeaseKeeper {
 public:
  struct Options {
    std::string kind;      // "partition", "queue_shard", "policy_shard"
    uint32_t count = 0;    // leases 0 … count-1
    std::string instance;  // unique to each start of a process
    // Instances that are proven to be dead (InstanceFile). Their leases are free at once.
    std::vector<std::string> dead_instances = {};
    absl::Duration ttl = absl::Seconds(5);
    absl::Duration renew_every = absl::Seconds(1);
    // Valid() ends this long before the end of the ttl counted from the request.
    absl::Duration margin = absl::Milliseconds(200);
    uint64_t first_epoch = 1;  // the epoch of a lease's first holder
  };
  struct Callbacks {
    absl::AnyInvocable<void(const HeldLease&)> on_acquired;
    // The lease has ended (lost, or about to be released for balance): drop all its state at once.
    absl::AnyInvocable<void(uint32_t index)> on_lost;
    // Optional. The lease should move to another instance for balance. The holder stops taking
    // work, finishes the running work and calls `release` on the executor; until then the lease is
    // renewed. Without this callback the lease is released at once.
    absl::AnyInvocable<void(uint32_t index, Closure release)> on_release_wanted;
    // Optional. Called after each read: `owned` leases have a live owner, this instance or another.
    absl::AnyInvocable<void(uint32_t owned)> on_read;
  };

  // `client` and `runtime` must outlive the keeper.
  LeaseKeeper(kv::KvClient& client, Runtime& runtime, std::shared_ptr<Executor> executor,
              Options options, Callbacks callbacks);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  void Start();

  // Gives all leases and the member row back, and takes none until Resume. Each lease goes as one
  // that moves for balance. Calls `done` once none is held; Resume, Release and the destructor drop
  // a `done` that has not been called.
  void Pause(Closure done);
  void Resume();

  // Stops renewing and acquiring and calls on_lost for each lease. Releases all leases and the
  // member row in one commit, then calls `done`.
  void Release(Closure done);

  // Drops all leases without releasing them, because the session was lost. Calls on_lost for each,
  // and goes on acquiring.
  void DropAll();

  // True while nobody else can hold the lease. It may turn true again if a late renewal found that
  // we still own it.
  bool Valid(uint32_t index) const;

  // The condition for the fence of each commit that writes for the resource. The lease must be
  // held.
  kv::Condition Fence(uint32_t index) const;

  // In ascending order.
  std::vector<uint32_t> Held() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::lease

#endif  // COMMON_LEASE_LEASE_KEEPER_H_
