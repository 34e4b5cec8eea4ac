// BatchLog: makes the batches of a RocksKvStore durable, in place of a sync of the database's own
// log. A replica's leader has one (common/kv/replica).
//
// For each batch the store calls Begin, writes, and calls Write. Then it writes the same to the
// database without a sync, publishes and answers. After an error of Write the store answers nothing
// any more.
//
// Threads: one thread calls Begin and Write. Any thread calls the others.

#ifndef COMMON_KV_ROCKS_BATCH_LOG_H_
#define COMMON_KV_ROCKS_BATCH_LOG_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/kv/engine/overlay.h"

namespace escapement::kv {

class BatchLog {
 public:
  virtual ~BatchLog() = default;

  enum class Last : bool { kNo, kYes };
  // Begins a batch. The sink passes what it receives on to `local`. kYes: the store will answer
  // nothing after this batch.
  virtual WriteSink& Begin(WriteSink& local, Last last) = 0;
  // Blocks until the batch is durable, or known to be refused, or the log has been stopped. Adds to
  // `local` what the database must know of the log. The batch's clock was read at `began`
  // (Clock::Elapsed).
  virtual absl::Status Write(absl::Duration began) = 0;

  // OK if what was read before this call may be answered without a write. Otherwise the status to
  // answer.
  virtual absl::Status MayAnswer() const = 0;
  // The status for calls and watches that end because the store does.
  virtual absl::Status WhyEnded() const = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_BATCH_LOG_H_
