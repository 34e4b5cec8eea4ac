// ReplicatedKvStore: a store of which several processes have copies. LeaderFront: refuses its calls
// while this process does not lead.

#ifndef COMMON_KV_REPLICA_REPLICATED_KV_STORE_H_
#define COMMON_KV_REPLICA_REPLICATED_KV_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/replica_loop.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// LeaderFront: passes calls to the store of this replica while it leads. Otherwise it answers every
// call with NotLeader, and ends every watch with it.
//
// Threads: as KvStore.
class LeaderFront final : public KvStore {
 public:
  // Both functions are called on any thread. `store` returns null while the replica does not lead.
  // `leader_address` returns where the leader serves; empty if nobody knows.
  LeaderFront(Runtime& runtime, std::function<std::shared_ptr<KvStore>()> store,
              std::function<std::string()> leader_address);
  ~LeaderFront() override;

  // After this, no call is answered with NotLeader. Idempotent.
  void Stop();

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;

 private:
  template <typename T>
  void TurnAway(Callback<T> done);

  const std::function<std::shared_ptr<KvStore>()> store_;
  const std::function<std::string()> leader_address_;
  const std::shared_ptr<Executor> answers_;  // for calls that are turned away
};

class RocksReplica;
class SnapshotKeeper;

// ReplicatedKvStore: a store of which several processes each have a copy, over a shared log. One of
// them leads and is the store. The others follow, answer every call with NotLeader
// (common/kv/not_leader.h), and take over when the leader is gone.
//
// A commit is answered, shown to watches and read only after its row in the log is acknowledged. So
// every promise of KvStore holds over the loss of any of the processes and of their disks, as far
// as the log's engine keeps what it acknowledges. docs/adr/0020 has the reasons, and
// docs/operations/high_availability.md says what each failure does.
//
// The data folder holds `replica/`, a cache of the log.
//
// Threads: as KvStore. Destroying it does not hand over: call HandOver before.
class ReplicatedKvStore final : public KvStore {
 public:
  struct Options {
    RocksKvStore::Options rocks;  // `layout` is for the first store of a log
    ReplicaLoop::Options replica;
    // Receives how long each batch took to become durable, on a thread of the log. May be empty.
    std::function<void(absl::Duration)> on_append;
  };

  // `runtime` and `log` must outlive the store. FAILED_PRECONDITION if the data folder has a store
  // that is not replicated. Otherwise errors as RocksReplica::Open. The log need not be reachable.
  static absl::StatusOr<std::unique_ptr<ReplicatedKvStore>> Open(Options options, Runtime& runtime,
                                                                 SharedLog& log);
  ~ReplicatedKvStore() override;

  // See ReplicaLoop::HandOver.
  void HandOver(Closure done);

  ReplicaStatus status() const;
  // The store's, while this replica leads. Otherwise all zeros.
  RocksKvStore::Info info() const;
  StoreSize size() const;
  // See RocksKvStore. NotLeader if this replica does not lead.
  absl::Status MakeCheckpoint(const std::string& folder);

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;

 private:
  ReplicatedKvStore(Options options, Runtime& runtime);
  std::string LeaderAddress() const;

  const Options options_;
  LeaderFront front_;
  std::unique_ptr<RocksReplica> copy_;
  std::unique_ptr<SnapshotKeeper> snapshots_;
  std::unique_ptr<ReplicaLoop> loop_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_REPLICATED_KV_STORE_H_
