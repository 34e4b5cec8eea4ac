// MemKvStore: a KvStore in memory for the deterministic simulation and for tests. It commits in
// groups that become durable at a simulated sync, and can crash: what was not synced is forgotten,
// or becomes durable without anybody having been told.
//
// MemDisk is what survives. The store is a process over it: Crash() ends the process (every open
// call fails with UNAVAILABLE, every watch ends, further calls fail with UNAVAILABLE), Restart()
// begins a new one.
//
// Threads: as KvStore. All state lives on one executor of the runtime, on which callbacks run.

#ifndef COMMON_KV_MEMORY_MEM_KV_STORE_H_
#define COMMON_KV_MEMORY_MEM_KV_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// The synced state, the store's own keys included. Touched by the store on its executor only.
struct MemDisk {
  using Family = absl::btree_map<std::string, std::string>;
  std::array<Family, kColumnFamilyCount> families;
  uint64_t starts = 0;  // of the store's process
};

class MemKvStore final : public KvStore {
 public:
  struct Options {
    absl::Duration sync_delay = absl::Microseconds(200);
    absl::Duration read_delay = absl::ZeroDuration();
    // No lease can be taken over in this time after a start (Condition::Kind::kStampPassed).
    absl::Duration lease_ttl = absl::Seconds(5);
    Layout layout;  // of a new disk
    size_t commits_queued_max = 65'536;
    size_t watch_history_bytes_max = 1 << 20;
    int recent_slots_log2 = 12;
    // Each commit of which something applied, in order, once it is durable (told or not): the truth
    // for checkers.
    std::function<void(const CommitRecord&)> on_durable;
  };

  // A store over a new disk.
  MemKvStore(Runtime& runtime, Options options);
  // A store over what an earlier one has left.
  MemKvStore(Runtime& runtime, Options options, std::shared_ptr<MemDisk> disk);
  ~MemKvStore() override;

  enum class Unsynced {
    kLost,  // the commits that were being synced are gone
    kKept,  // they are durable, though nobody was told
  };
  // On the executor's thread or, outside the simulation, from any; takes effect in the order of
  // calls.
  void Crash(Unsynced unsynced);
  void Restart();

  // The operator's AskClock.
  void ConfirmClock();

  // The disk may be read by anybody while the store is down or the simulation stands still.
  const std::shared_ptr<MemDisk>& disk() const;

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;

 private:
  class Core;
  class Process;
  class Handle;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_MEMORY_MEM_KV_STORE_H_
