// ReplicaSnapshots: uploads checkpoints of a replica's copy as snapshots, trims the log behind
// them, and restores a copy from one. SnapshotKeeper does it with files; MemSnapshots (testing/) is
// the simulation's.
//
// Threads: one thread makes it, calls it and stops it. Callbacks run on any thread.

#ifndef COMMON_KV_REPLICA_REPLICA_SNAPSHOTS_H_
#define COMMON_KV_REPLICA_REPLICA_SNAPSHOTS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/replica/replica_copy.h"

namespace escapement::kv {

class ReplicaSnapshots {
 public:
  virtual ~ReplicaSnapshots() = default;

  // The newest snapshot's; nothing if there is none.
  using Found = std::optional<CheckpointFacts>;
  virtual void Find(std::function<void(absl::StatusOr<Found>)> done) = 0;

  // Uploads the checkpoint in `folder`, deletes the folder, and trims the log.
  virtual void Upload(std::string folder,
                      std::function<void(absl::StatusOr<CheckpointFacts>)> done) = 0;

  // Fills `folder` with the newest snapshot that is whole. Nothing if there is no snapshot.
  // DATA_LOSS if none of those that there are is whole.
  virtual void Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done) = 0;

  // Ends waits. The running work ends with CANCELLED, or its callback never runs. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_REPLICA_SNAPSHOTS_H_
