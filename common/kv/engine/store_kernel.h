// StoreKernel: what every store's process does around the decision of commits: its time, its
// sessions' opening, the keys that it keeps about itself. Pure, as CommitEngine: readings of clocks
// are arguments.
//
// Threads: one at a time.

#ifndef COMMON_KV_ENGINE_STORE_KERNEL_H_
#define COMMON_KV_ENGINE_STORE_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/engine/store_clock.h"
#include "common/kv/layout.h"

namespace escapement::kv {

class StoreKernel {
 public:
  struct Options {
    CommitEngine::Options engine;
    absl::Duration lease_ttl = absl::Seconds(5);
    std::string boot_id;  // of the machine
  };

  // True if the store under `base` has been made.
  static bool Exists(BaseState& base);
  // FAILED_PRECONDITION: the store under `base` has a format that this program does not know.
  // DATA_LOSS: the record of it is malformed. OK if no store has been made.
  static absl::Status CheckFormat(BaseState& base);
  // Writes what a new store begins with.
  static void Create(WriteSink& sink, uint64_t incarnation, const Layout& layout);
  // As CheckFormat; DATA_LOSS also if a record is missing or malformed.
  static absl::StatusOr<std::unique_ptr<StoreKernel>> Load(Options options, BaseState& base,
                                                           const ClockReading& now);

  CommitEngine& engine() { return engine_; }
  uint64_t incarnation() const { return incarnation_; }
  // Of the last commit decided.
  CommitSeq seq() const { return engine_.seq(); }
  // True after StoreClock::kRecordInterval without a write, or when the hold has changed: make an
  // empty batch.
  bool WantsBatch(const ClockReading& now);

  absl::Time Now(const ClockReading& now);
  const StoreClock& clock() const { return clock_; }
  // KvStore::AskClock. No lease can be taken over for one TTL after a step forward, confirmed or
  // not, as after a start: their holders count by elapsed time, which has not stepped.
  ClockState AskClock(const ClockCall& call, const ClockReading& now);

  // Begins a batch at this instant. If the clock's hold has changed this is the batch's first
  // commit: its record.
  std::shared_ptr<const CommitRecord> BeginBatch(WriteSink& sink, const ClockReading& now);
  // CommitEngine::Decide; the answer tells of the slow phase that is announced now.
  CommitEngine::Decision Decide(std::shared_ptr<const CommitRequest> request);
  // FAILED_PRECONDITION if the store is behind what the client has seen.
  absl::StatusOr<SessionInfo> OpenSession(uint64_t seen_incarnation, CommitSeq seen);
  // True if what the sink has received must be written; else it may be dropped.
  bool EndBatch();

  // Throws the incarnation away for a new, larger one (loss was accepted). Only before the first
  // batch.
  static void NewIncarnation(BaseState& base, WriteSink& sink, uint64_t at_least);

 private:
  StoreKernel(Options options, BaseState& base, CommitSeq seq, uint64_t incarnation,
              StoreClock clock, bool hold_stored, const ClockReading& now);

  CommitEngine engine_;
  const uint64_t incarnation_;
  const absl::Duration lease_ttl_;
  absl::Duration stamps_since_;  // boottime of the start, or of the clock's last step forward
  uint64_t steps_seen_ = 0;      // of the clock
  StoreClock clock_;
  bool hold_stored_;
  absl::Duration recorded_;  // boottime of the last clock record that was written
  absl::Duration batch_boottime_;
  absl::Time batch_time_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_KERNEL_H_
