// LeaderFront: passes calls to the store of this replica while it leads. Otherwise it answers every
// call with NotLeader, and ends every watch with it.
//
// Threads: as KvStore.

#ifndef COMMON_KV_REPLICA_LEADER_FRONT_H_
#define COMMON_KV_REPLICA_LEADER_FRONT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class LeaderFront final : public KvStore {
 public:
  // Both functions are called on any thread. `store` returns null while the replica does not lead.
  // `leader_address` returns where the leader serves; empty if nobody knows.
  LeaderFront(Runtime& runtime, std::function<std::shared_ptr<KvStore>()> store,
              std::function<std::string()> leader_address);
  ~LeaderFront() override;

  // Turns nobody away any more. Idempotent.
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

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_LEADER_FRONT_H_
