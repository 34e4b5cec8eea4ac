// RocksKvStore: the embedded KvStore, over RocksDB. One process opens the data folder.
//
// One thread decides and writes. It takes all commits that have arrived, decides them in order,
// writes them as one synced batch, publishes the new state and then answers. A few threads read,
// each from the latest published snapshot. So a read blocks nobody and sees only synced state.
//
// The data folder holds `db/` (RocksDB) and `witness` (witness_file.h). If the disk has less than
// `free_bytes_min` left, commits are refused with RESOURCE_EXHAUSTED before anything is written,
// until there is room again. If the disk has no room although the store expected some, the write
// waits for it, and so do the commits of its batch. Any other error of a write or sync ends the
// process.
//
// A replica that leads has such a store over its copy, whose batches become durable in a shared log
// (BatchLog) instead of on the disk.
//
// Threads: as KvStore. Destroying it waits for the running batch; queued calls fail with
// UNAVAILABLE. If that batch waits for room on the disk, this ends the process like a failed write.

#ifndef COMMON_KV_ROCKS_ROCKS_KV_STORE_H_
#define COMMON_KV_ROCKS_ROCKS_KV_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/runtime/runtime.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace escapement::kv {

class BatchLog;
class RocksDatabase;
class RocksStoreCore;
struct CommitRecord;

class RocksKvStore final : public KvStore {
 public:
  struct Options {
    std::string data_dir;
    // Serve although acknowledged commits are missing. This begins a new incarnation, and every
    // client starts afresh.
    bool accept_loss = false;
    // No lease can be taken over this long after a start (Condition::Kind::kStampPassed).
    absl::Duration lease_ttl = absl::Seconds(5);
    Layout layout;  // layout of a new store; an existing one keeps its own

    size_t commits_queued_max = 16'384;         // above this: RESOURCE_EXHAUSTED
    size_t batch_bytes_max = 16 << 20;          // bytes of commits decided and synced together
    size_t watch_history_bytes_max = 16 << 20;  // bytes of commits kept for watches that begin a
                                                // little in the past
    uint64_t free_bytes_min = uint64_t{256} << 20;
    int read_threads = 2;
    int recent_slots_log2 = 20;
    size_t block_cache_bytes = 256 << 20;
    size_t write_buffer_bytes = 64 << 20;
    absl::Duration witness_interval = absl::Milliseconds(100);
    absl::Duration beat_interval = absl::Milliseconds(500);  // only with a BatchLog

    // Returns the free bytes of the file system that holds a path. Default: statvfs.
    std::function<uint64_t(const std::string& path)> free_bytes;
    // Called when the disk has failed; must not return. Default: logs, then _exit(70).
    std::function<void(const absl::Status&)> on_fatal;
    // Receives the commits of a batch in order, on the writing thread, before the batch is written.
    // A crash leaves a prefix of them. May be empty.
    std::function<void(const std::vector<std::shared_ptr<const CommitRecord>>&)> on_decided;
    // The file system for everything in `data_dir`. Null: the machine's.
    std::shared_ptr<rocksdb::FileSystem> file_system;
  };

  // `clock` must outlive the store. DATA_LOSS: acknowledged commits are missing (see accept_loss),
  // or the data is broken. FAILED_PRECONDITION: the data has another format. UNAVAILABLE: another
  // process has the folder open. INVALID_ARGUMENT: the layout is out of bounds.
  static absl::StatusOr<std::unique_ptr<RocksKvStore>> Open(Options options, Clock& clock);

  // A replica's copy of the state, which the replica leads.
  struct Replica {
    std::unique_ptr<RocksDatabase> database;
    BatchLog& log;  // must outlive the store
    // See StoreKernel::Options.
    std::optional<absl::Duration> clock_age;
  };
  // A store over a copy. It returns once a first batch is in the log. It uses data_dir only to
  // measure the free room, and ignores accept_loss, layout, file_system and on_fatal, which are the
  // database's. Errors as StoreKernel::Load, and those of the log.
  static absl::StatusOr<std::unique_ptr<RocksKvStore>> OpenReplica(Options options, Clock& clock,
                                                                   Replica replica);
  // Ends a replica's store and gives the copy back. With `hand_over` it writes a last batch. Calls
  // that come later fail with UNAVAILABLE.
  std::unique_ptr<RocksDatabase> Release(bool hand_over);
  // See RocksDatabase. Any thread. UNAVAILABLE after Release, which waits for it.
  absl::Status MakeCheckpoint(const std::string& folder);

  ~RocksKvStore() override;

  struct Info {
    uint64_t incarnation = 0;
    CommitSeq seq = 0;  // sequence of the last acknowledged commit
    Layout layout;
    absl::Time store_time;
    absl::Duration clock_disagreement;  // wall clock minus store time
    bool clock_hold = false;            // emission is held (store_clock.h)
    absl::Duration clock_held_for;      // since the hold began
    bool accepting = true;              // false while the disk is full: too little room is left, or
                                        // a write waits for some
    uint64_t commits = 0;               // commits decided since the start
    uint64_t syncs = 0;                 // syncs since the start; one may cover many commits
  };
  Info info() const;
  StoreSize size() const;

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;

 private:
  class Handle;
  explicit RocksKvStore(std::shared_ptr<RocksStoreCore> core);
  std::shared_ptr<RocksStoreCore> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_KV_STORE_H_
