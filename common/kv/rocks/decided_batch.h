// DecidedBatch: a batch of a RocksKvStore, from its decision until its answers are given.
//
// Threads: plain values. Only the writer's thread uses them, except `place`.

#ifndef COMMON_KV_ROCKS_DECIDED_BATCH_H_
#define COMMON_KV_ROCKS_DECIDED_BATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/kv_store.h"
#include "common/kv/rocks/rocks_database.h"

namespace escapement::kv {

// A commit, or the opening of a session if `request` is null.
struct StoreWork {
  std::shared_ptr<const CommitRequest> request;
  std::optional<PendingAnswer<CommitResult>> committed;
  // The queue was full. The refusal is answered in its turn, after an earlier copy of the same
  // commit.
  bool refused = false;
  uint64_t seen_incarnation = 0;
  CommitSeq seen = 0;
  std::optional<PendingAnswer<SessionInfo>> opened;
};

// The part of a store's state that it publishes beside a snapshot.
struct StoreState {
  CommitSeq seq = 0;
  absl::Time store_time;
  absl::Time slow_from = absl::InfiniteFuture();
  absl::Duration read_at;  // Clock::Elapsed at `store_time`
  absl::Duration clock_disagreement;
  bool clock_hold = false;
  absl::Duration clock_held_for;
};

struct DecidedBatch {
  std::vector<StoreWork> works;
  std::vector<absl::StatusOr<CommitResult>> results;  // one for each commit, in order
  std::vector<absl::StatusOr<SessionInfo>> sessions;  // one for each other work, in order
  std::vector<std::shared_ptr<const CommitRecord>> records;
  std::vector<std::pair<PendingAnswer<ClockState>, ClockState>> clock_answers;
  bool wrote = false;  // the batch must become durable before its answers are given
  // The state after the batch, at the clock reading with which the batch began.
  StoreState state;

  // Only with a BatchLog: the batch's writes, and what the log answered. `place` is guarded by the
  // core's lock once the batch has been sent.
  std::unique_ptr<RocksDatabase::Batch> writes;
  std::optional<absl::StatusOr<std::string>> place;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_DECIDED_BATCH_H_
