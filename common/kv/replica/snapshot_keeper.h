// SnapshotKeeper: uploads checkpoints of a replica's copy as snapshots, trims the log behind them,
// and restores a copy from one. The work is done one after the other, on an executor of its own,
// which it may block for minutes.
//
// Threads: one thread makes it, calls it and stops it. Callbacks run on the keeper's executor.

#ifndef COMMON_KV_REPLICA_SNAPSHOT_KEEPER_H_
#define COMMON_KV_REPLICA_SNAPSHOT_KEEPER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/blocking_log.h"
#include "common/kv/replica/file_hashes.h"
#include "common/kv/replica/replica_copy.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class SnapshotKeeper {
 public:
  // The arguments must outlive it.
  SnapshotKeeper(Runtime& runtime, SharedLog& log, ReplicaCopy& copy);
  ~SnapshotKeeper();

  // The newest snapshot's; nothing if there is none.
  using Found = std::optional<CheckpointFacts>;
  void Find(std::function<void(absl::StatusOr<Found>)> done);

  // Uploads the checkpoint in `folder`, deletes the folder, and trims the log.
  void Upload(std::string folder, std::function<void(absl::StatusOr<CheckpointFacts>)> done);

  // Fills `folder` with the newest snapshot that is whole. Nothing if there is no snapshot.
  // DATA_LOSS if none of those that there are is whole.
  void Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done);

  // Ends waits; the running work ends with CANCELLED. Idempotent.
  void Stop();

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
