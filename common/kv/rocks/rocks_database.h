// RocksDatabase is a RocksDB with our column families.
//
// StoreSize: how much a store's database holds, for metrics.

#ifndef COMMON_KV_ROCKS_ROCKS_DATABASE_H_
#define COMMON_KV_ROCKS_ROCKS_DATABASE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "rocksdb/cache.h"
#include "rocksdb/options.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace escapement::kv {

class RoomWait;

// The free bytes of the file system that holds `path`, which must exist; the greatest number if
// that cannot be known. By statvfs.
uint64_t FreeBytes(const std::string& path);

struct StoreSize {
  // About how many rows each family has. RocksDB counts writes less deletions, so the count is
  // exact only for a family whose rows are written once.
  std::array<uint64_t, kColumnFamilyCount> rows{};
  uint64_t live_bytes = 0;   // table files and writes in memory
  bool write_stall = false;  // RocksDB stops or slows writes, because its compaction is behind
};

// RocksDatabase: a RocksDB database with our column families and settings (docs/design/store.md).
//
// A store's writes are synced writes of the log; a replica's copy needs no sync. Only the writing
// thread reads the latest state; all other threads read a Snapshot. If a write or a read of the
// latest state fails, `on_fatal` is called and must not return. After a failed write or sync of the
// log the content of the disk is unknown, and another attempt could acknowledge lost data. Writes
// to a full disk can wait until there is room (room_wait.h).
//
// Threads: one thread uses the BaseState part and Write. Any thread may call TakeSnapshot and read
// snapshots.

class RocksDatabase final : public BaseState {
 public:
  struct Options {
    size_t block_cache_bytes = 256 << 20;
    size_t write_buffer_bytes = 64 << 20;        // for each column family with much traffic
    size_t write_buffers_bytes_max = 640 << 20;  // for all families together
    std::function<void(const absl::Status&)> on_fatal;
    std::shared_ptr<rocksdb::FileSystem> file_system;  // null: the machine's file system
    // Returns the free bytes of the file system that holds a path. Empty: FreeBytes.
    std::function<uint64_t(const std::string& path)> free_bytes;
  };

  // Creates the database if the folder is absent. UNAVAILABLE if another process has it open.
  // RESOURCE_EXHAUSTED if the disk has no room for what is written on opening.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(const std::string& path,
                                                             Options options);
  ~RocksDatabase() override;

  // Each thread that uses a database must call this once. It turns off RocksDB's statistics of
  // threads, which nothing reads (docs/adr/0008).
  static void PrepareThread();

  // Reads the latest state.
  bool Get(ColumnFamily cf, absl::string_view key, std::string& value) override;
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override;

  // The writes that the next Write() makes durable. Reused from write to write.
  WriteSink& batch();
  size_t batch_bytes() const;
  void ClearBatch();
  // Writes and syncs the batch, and leaves it empty. The writes are durable when it returns.
  void Write();
  // Writes the batch without a sync. After a crash of the machine a suffix of such writes may be
  // missing.
  void WriteUnsynced();

  // Writes that are collected beside batch().
  class Batch : public WriteSink {
   public:
    virtual size_t bytes() const = 0;
    virtual void Clear() = 0;
  };
  // Not to be used after the database has gone.
  std::unique_ptr<Batch> NewBatch();
  // As WriteUnsynced() for this batch; leaves it empty.
  void WriteUnsynced(Batch& batch);

  // Makes a folder with the database's present state, which Open can open. It holds every write so
  // far, and shares its table files with the database where the file system can (hard links). The
  // folder must not exist. Any thread.
  absl::Status MakeCheckpoint(const std::string& path);

  // Any thread.
  StoreSize size() const;
  // Where the database's writes wait while the disk is full, once the owner has called Begin.
  // Destroying the database ends the wait, and the writes fail.
  const std::shared_ptr<RoomWait>& room() const;

  class Snapshot {
   public:
    virtual ~Snapshot() = default;
    virtual absl::Status MultiGet(const std::vector<Key>& keys, GetResult& result) const = 0;
    virtual absl::Status Scan(const ScanRequest& request, ScanResult& result) const = 0;
  };
  // A snapshot of all writes so far. It must be destroyed before the database.
  std::shared_ptr<const Snapshot> TakeSnapshot();

 private:
  struct State;
  class RocksSnapshot;
  explicit RocksDatabase(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The settings of RocksDB, each with its reason.

rocksdb::DBOptions DatabaseOptions(size_t write_buffers_bytes_max);

// `write_buffer_bytes` is for a family with much traffic; the others get an eighth of it.
rocksdb::ColumnFamilyOptions FamilyOptions(ColumnFamily cf, size_t write_buffer_bytes,
                                           const std::shared_ptr<rocksdb::Cache>& cache);

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_DATABASE_H_
