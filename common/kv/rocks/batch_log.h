// BatchLog: makes the batches of a RocksKvStore durable, in place of a sync of the database's own
// log. A replica's leader has one (common/kv/replica).
//
// For each batch the store calls Begin, writes, and calls Send. It may begin further batches before
// the first one is durable. Once a batch is durable, the store writes it to the database without a
// sync, publishes and answers. After an error the store answers nothing any more.
//
// Threads: one thread calls Begin and Send. Any thread calls the others.

#ifndef COMMON_KV_ROCKS_BATCH_LOG_H_
#define COMMON_KV_ROCKS_BATCH_LOG_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/overlay.h"

namespace escapement::kv {

class BatchLog {
 public:
  virtual ~BatchLog() = default;

  enum class Last : bool { kNo, kYes };
  // Begins a batch. The sink passes what it receives on to `local`. A batch that is not sent is
  // forgotten at the next Begin. kYes: the store will answer nothing after this batch.
  virtual WriteSink& Begin(WriteSink& local, Last last) = 0;

  // `place`: the database must have this value at kLogPlaceKey together with the batch.
  using Done = std::function<void(absl::StatusOr<std::string> place)>;
  // Sends the batch that was begun last, and does not wait. Its clock was read at `began`
  // (Clock::Elapsed). `done` is called once: when the batch and all batches before it are durable,
  // or with an error. After an error every later batch has an error, too. `done` may run on any
  // thread, and before Send returns.
  virtual void Send(absl::Duration began, Done done) = 0;

  // OK if what was read before this call may be answered without a write. Otherwise the status to
  // answer.
  virtual absl::Status MayAnswer() const = 0;
  // The status for calls and watches that end because the store does.
  virtual absl::Status WhyEnded() const = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_BATCH_LOG_H_
