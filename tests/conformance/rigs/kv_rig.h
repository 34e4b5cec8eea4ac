// KvRig: one kind of KvStore for the conformance suite: the store, its restart, and blocking calls.

#ifndef TESTS_CONFORMANCE_RIGS_KV_RIG_H_
#define TESTS_CONFORMANCE_RIGS_KV_RIG_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/runtime/system_runtime.h"

namespace escapement::kv {

class KvRig {
 public:
  virtual ~KvRig() = default;
  virtual KvStore& store() = 0;
  // Ends the serving process and starts another one over the same data.
  virtual void Restart() = 0;

  // These calls wait at most half a minute; then they return DEADLINE_EXCEEDED.
  absl::StatusOr<SessionInfo> OpenSession(uint64_t seen_incarnation = 0, CommitSeq seen = 0);
  absl::StatusOr<CommitResult> Commit(CommitRequest request);
  absl::StatusOr<GetResult> Get(std::vector<Key> keys);
  absl::StatusOr<ScanResult> Scan(ScanRequest request);
};

// `lease_ttl`, `accept_loss`: see the stores' options.
struct RigOptions {
  absl::Duration lease_ttl = absl::ZeroDuration();
  bool accept_loss = false;  // only replicas
  int recent_slots_log2 = 16;
};
std::unique_ptr<KvRig> NewMemRig(RigOptions options);
std::unique_ptr<KvRig> NewRocksRig(RigOptions options);
// GrpcKvStore over a RocksKvStore served in the same process on a loopback port.
std::unique_ptr<KvRig> NewGrpcRig(RigOptions options);
// The same with a LeaderSeekingKvStore that also knows a store that does not lead.
std::unique_ptr<KvRig> NewLeaderSeekingRig(RigOptions options);

// Collects the events of a watch.
class WatchLog {
 public:
  WatchObserver observer();
  // Waits until `count` mutations have come, the watch has lagged, or half a minute has passed.
  std::vector<WatchedMutation> WaitFor(size_t count);
  std::optional<absl::Status> WaitForLag();
  std::vector<CommitSeq> seqs();

 private:
  struct State {
    absl::Mutex mu;
    std::vector<WatchedMutation> mutations;
    std::vector<CommitSeq> seqs;
    std::optional<absl::Status> lagged;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Short names for mutations and conditions.
Mutation Put(ColumnFamily cf, std::string key, std::string value);
Mutation Delete(ColumnFamily cf, std::string key);
Mutation DeleteRange(ColumnFamily cf, std::string begin, std::string end);
Condition Cond(ColumnFamily cf, std::string key, Condition::Kind kind, std::string value = "",
               uint64_t number = 0, CommitSeq since = 0);
CommitRequest Request(uint64_t session, uint64_t number, std::vector<Group> groups);

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_RIGS_KV_RIG_H_
