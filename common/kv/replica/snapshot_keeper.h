// SnapshotKeeper makes, uploads and fetches snapshots of a copy.
//
// FileHashes: SHA-256 of files, each computed once. A file is known by its device, inode, size and
// time of change; RocksDB's table files never change, and a checkpoint shares them by hard links.
//
// Threads: one at a time. Blocks on IO.

#ifndef COMMON_KV_REPLICA_SNAPSHOT_KEEPER_H_
#define COMMON_KV_REPLICA_SNAPSHOT_KEEPER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "common/kv/log/blocking_log.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/replica_copy.h"
#include "common/kv/replica/replica_snapshots.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class FileHashes {
 public:
  // INTERNAL if the file cannot be read.
  absl::StatusOr<std::string> HashOf(const std::string& path);

 private:
  using Id = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;
  static constexpr size_t kKnownMax = 20'000;
  std::map<Id, std::string> known_;
};

// Computes it now.
absl::StatusOr<std::string> HashFile(const std::string& path);

// SnapshotKeeper: the snapshots of a copy whose checkpoints are folders of files. The work is done
// one after the other, on an executor of its own, which it may block for minutes.
//
// Threads: one thread makes it, calls it and stops it. Callbacks run on the keeper's executor.

class SnapshotKeeper final : public ReplicaSnapshots {
 public:
  // The arguments must outlive it.
  SnapshotKeeper(Runtime& runtime, SharedLog& log, ReplicaCopy& copy);
  ~SnapshotKeeper() override;

  void Find(std::function<void(absl::StatusOr<Found>)> done) override;
  void Upload(std::string folder,
              std::function<void(absl::StatusOr<CheckpointFacts>)> done) override;
  void Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done) override;
  void Stop() override;

 private:
  absl::StatusOr<CheckpointFacts> UploadNow(const std::string& folder);
  absl::StatusOr<Found> RestoreNow(const std::string& folder);

  ReplicaCopy& copy_;
  BlockingLog log_;
  FileHashes hashes_;  // on the executor
  const std::shared_ptr<Executor> executor_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_SNAPSHOT_KEEPER_H_
