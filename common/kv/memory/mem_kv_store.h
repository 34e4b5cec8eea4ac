// MemKvStore: a KvStore in memory. MemDisk: its state, which survives a crash. DiskState and
// DiskSink read and write that state.

#ifndef COMMON_KV_MEMORY_MEM_KV_STORE_H_
#define COMMON_KV_MEMORY_MEM_KV_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// MemDisk: the synced state of a store in memory, including the store's own keys. Only the store
// touches it, on its executor.
//
// Threads: one at a time.
struct MemDisk {
  using Family = absl::btree_map<std::string, std::string>;
  std::array<Family, kColumnFamilyCount> families;
  uint64_t starts = 0;  // how often the store has started
};

// Reads the disk.
class DiskState final : public BaseState {
 public:
  explicit DiskState(MemDisk& disk) : disk_(disk) {}

  bool Get(ColumnFamily cf, absl::string_view key, std::string& value) override;
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override;

 private:
  MemDisk& disk_;
};

// Writes to the disk at once.
class DiskSink final : public WriteSink {
 public:
  explicit DiskSink(MemDisk& disk) : disk_(disk) {}

  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override;
  void Delete(ColumnFamily cf, absl::string_view key) override;
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override;

 private:
  MemDisk& disk_;
};

// The entries of a valid request. The caller adds sequence and store time.
ScanResult ScanDisk(const MemDisk& disk, const ScanRequest& request);

// MemKvStore: a KvStore in memory for the simulation and for tests. Commits become durable in
// batches at a simulated sync. After a crash, commits that were not synced are either lost, or
// durable without an answer.
//
// MemDisk survives a crash; the store is a process over it. Crash() ends the process: every open
// call fails with UNAVAILABLE, every watch ends, and further calls fail with UNAVAILABLE. Restart()
// begins a new process.
//
// Threads: as KvStore. All state lives on one executor of the runtime; callbacks run there.
class MemKvStore final : public KvStore {
 public:
  struct Options {
    absl::Duration sync_delay = absl::Microseconds(200);
    absl::Duration read_delay = absl::ZeroDuration();
    // No lease can be taken over this long after a start (Condition::Kind::kStampPassed).
    absl::Duration lease_ttl = absl::Seconds(5);
    Layout layout;  // layout of a new disk
    size_t commits_queued_max = 65'536;
    size_t watch_history_bytes_max = 1 << 20;
    int recent_slots_log2 = 12;
    // Called for each commit that applied something, in order, once it is durable, even if its
    // answer is lost. Checkers take this as the truth.
    std::function<void(const CommitRecord&)> on_durable;
  };

  // A store on a new disk.
  MemKvStore(Runtime& runtime, Options options);
  // A store on the disk of an earlier store.
  MemKvStore(Runtime& runtime, Options options, std::shared_ptr<MemDisk> disk);
  ~MemKvStore() override;

  enum class Unsynced {
    kLost,  // loses the commits in the running sync
    kKept,  // keeps them, without an answer
  };
  // Call it on the executor's thread or, outside the simulation, on any thread. Crashes and
  // restarts take effect in the order of the calls.
  void Crash(Unsynced unsynced);
  void Restart();

  // Confirms the clock, as AskClock does for an operator.
  void ConfirmClock();

  // Anybody may read the disk while the store is down or the simulation stands still.
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
