// ReplicaCopy: a replica's own copy of the state, as ReplicaLoop drives it. RocksReplica is the
// copy on disk; MemReplica (testing/) is the simulation's.
//
// Threads: the loop's executor.

#ifndef COMMON_KV_REPLICA_REPLICA_COPY_H_
#define COMMON_KV_REPLICA_REPLICA_COPY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/replica/leader_log.h"
#include "common/kv/replica/log_record.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// The contents of a checkpoint of a copy.
struct CheckpointFacts {
  LogPlace place;
  absl::Time store_time;  // the last batch's; InfinitePast if there is none
};

class ReplicaCopy {
 public:
  virtual ~ReplicaCopy() = default;

  // Where the copy stands in the log; nothing if there is no copy yet. Not while it leads.
  virtual std::optional<LogPlace> place() = 0;
  // Makes an empty copy at the log's beginning. Only if there is none.
  virtual absl::Status Begin(const LogPosition& first) = 0;
  // Applies rows that follow on place(). FAILED_PRECONDITION: a newer program has written them, or
  // the store has moved out of the log. OUT_OF_RANGE: the copy must begin with a snapshot.
  virtual absl::Status Apply(const std::vector<LogRow>& rows) = 0;
  // Deletes the copy.
  virtual absl::Status Drop() = 0;
  // Notes which log a copy belongs to that does not know it (LogPlace::genesis).
  virtual absl::Status NameLog(uint64_t genesis) = 0;
  // Renames the copy, so that an operator still has it, and goes on without one.
  virtual absl::Status SetAside() = 0;

  // The first row of a term. In the first term it has the keys of a new store.
  virtual std::string LeaderRecord() = 0;
  // Serves the copy as the leader's store. `log` ends at place(). The copy follows no rows until
  // StopLeading. `clock_age`: see StoreKernel::Options. `started` runs once the first batch is
  // acknowledged, or with the reason why the copy cannot lead; perhaps before the call returns. An
  // implementation may block until then.
  virtual void StartLeading(std::shared_ptr<LeaderLog> log, absl::Duration clock_age,
                            std::function<void(absl::Status)> started) = 0;
  // The store time that is known now; InfinitePast if there is none.
  virtual absl::Time store_time() = 0;

  // Makes a checkpoint in `folder`, and deletes what was there; also while it leads. Blocks on IO.
  virtual absl::Status MakeCheckpoint(const std::string& folder) = 0;
  // Reads the facts of such a folder. It may rewrite the folder's files without a change of their
  // meaning. Any thread.
  virtual absl::StatusOr<CheckpointFacts> ReadCheckpoint(const std::string& folder) = 0;
  // Moves the checkpoint in the place of the copy. Not while it leads.
  virtual absl::Status Adopt(const std::string& folder) = 0;
  // A folder for checkpoints on the copy's file system.
  virtual std::string scratch() const = 0;

  // Stops serving and writes a last row. `done` runs once that is settled; perhaps before the call
  // returns. An implementation may block until then. StopLeading must follow.
  virtual void WriteHandover(Closure done) = 0;
  // Stops serving. Drops a batch that has no answer of the log yet.
  virtual void StopLeading() = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_REPLICA_COPY_H_
