// RocksDatabase: a RocksDB database with our column families and settings
// (docs/design/store.md).
//
// Every write goes through one synced WAL write. Reads of the latest state are for the one thread
// that writes; everybody else reads a Snapshot. An error of a read of the latest state or of a
// write is given to `on_fatal`, which must not return: after a failed WAL write or sync nobody
// knows what is on the disk, and trying again could acknowledge what is lost.
//
// Threads: the BaseState part and Write belong to one thread; TakeSnapshot and snapshot reads to
// any.

#ifndef COMMON_KV_ROCKS_ROCKS_DATABASE_H_
#define COMMON_KV_ROCKS_ROCKS_DATABASE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/kv_store.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace escapement::kv {

class RocksDatabase final : public BaseState {
 public:
  struct Options {
    size_t block_cache_bytes = 256 << 20;
    size_t write_buffer_bytes = 64 << 20;        // of each column family that sees much traffic
    size_t write_buffers_bytes_max = 640 << 20;  // of all together
    std::function<void(const absl::Status&)> on_fatal;
    std::shared_ptr<rocksdb::FileSystem> file_system;  // null: the machine's
  };

  // Makes the database if the folder is absent. UNAVAILABLE: another process has it open.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(const std::string& path,
                                                             Options options);
  ~RocksDatabase() override;

  // To be called once by each thread that uses a database: it counts nothing for RocksDB's
  // statistics of threads, of which nobody reads any (docs/adr/0008).
  static void PrepareThread();

  // The latest state.
  bool Get(ColumnFamily cf, absl::string_view key, std::string* value) override;
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override;

  // What one Write makes durable. Reused from write to write.
  WriteSink& batch();
  size_t batch_bytes() const;
  void ClearBatch();
  // Durable when it returns; the batch is empty then.
  void Write();

  class Snapshot {
   public:
    virtual ~Snapshot() = default;
    virtual absl::Status MultiGet(const std::vector<Key>& keys, GetResult* result) const = 0;
    virtual absl::Status Scan(const ScanRequest& request, ScanResult* result) const = 0;
  };
  // Of all that was written before. Must be gone before the database.
  std::shared_ptr<const Snapshot> TakeSnapshot();

 private:
  struct State;
  class RocksSnapshot;
  explicit RocksDatabase(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_DATABASE_H_
