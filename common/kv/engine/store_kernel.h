// StoreKernel: what every store does around the decision of commits. It keeps the store's time,
// opens sessions, and keeps the store's own keys. Like CommitEngine it is pure: readings of clocks
// are arguments.
//
// Threads: one at a time.

#ifndef COMMON_KV_ENGINE_STORE_KERNEL_H_
#define COMMON_KV_ENGINE_STORE_KERNEL_H_

#include <cstdint>
#include <memory>
#include <optional>
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
    std::string boot_id;  // boot id of the store's machine
    // For a replica that takes over: all that the former leader has written is at least so old; see
    // StoreClock. Leases were renewed before that, too.
    std::optional<absl::Duration> clock_age = std::nullopt;
  };

  // True if `base` holds a store.
  static bool Exists(BaseState& base);
  // OK if `base` holds no store yet. FAILED_PRECONDITION if the store has a format that this
  // program does not know. DATA_LOSS if the record of the format is malformed.
  static absl::Status CheckFormat(BaseState& base);
  // Writes the keys of a new store.
  static void Create(WriteSink& sink, uint64_t incarnation, const Layout& layout);
  // Errors as CheckFormat; also DATA_LOSS if a record is missing or malformed.
  static absl::StatusOr<std::unique_ptr<StoreKernel>> Load(Options options, BaseState& base,
                                                           const ClockReading& now);

  CommitEngine& engine() { return engine_; }
  uint64_t incarnation() const { return incarnation_; }
  // Sequence of the last decided commit.
  CommitSeq seq() const { return engine_.seq(); }
  // True if nothing was written for StoreClock::kRecordInterval or the hold changed: then make a
  // batch without commits.
  bool WantsBatch(const ClockReading& now);

  absl::Time Now(const ClockReading& now);
  const StoreClock& clock() const { return clock_; }
  // See KvStore::AskClock. After a step forward, confirmed or not, no lease can be taken over for
  // one TTL, as after a start: lease holders count elapsed time, which did not step.
  ClockState AskClock(const ClockCall& call, const ClockReading& now);

  // Begins a batch at this instant. `now_low` is the latest CommitRequest::now_low of its commits;
  // see StoreClock::AdvanceTo. If the clock's hold changed, the batch's first commit records that;
  // it is returned.
  std::shared_ptr<const CommitRecord> BeginBatch(WriteSink& sink, const ClockReading& now,
                                                 absl::Time now_low = absl::InfinitePast());
  // See CommitEngine::Decide; the answer also has the present pace.
  CommitEngine::Decision Decide(std::shared_ptr<const CommitRequest> request);
  // FAILED_PRECONDITION if the store is behind `seen`.
  absl::StatusOr<SessionInfo> OpenSession(uint64_t seen_incarnation, CommitSeq seen);
  // Returns true if the sink's content must be written; otherwise it may be dropped.
  bool EndBatch(CommitEngine::Ended ended = CommitEngine::Ended::kWritten);
  // See CommitEngine.
  void SettleBatch() { engine_.SettleBatch(); }

  // Replaces the incarnation by a new, larger one, because an operator accepted the loss of data.
  // Only before the first batch.
  static void NewIncarnation(BaseState& base, WriteSink& sink, uint64_t at_least);

 private:
  StoreKernel(Options options, BaseState& base, CommitSeq seq, uint64_t incarnation,
              StoreClock clock, bool hold_stored, const ClockReading& now);

  CommitEngine engine_;
  const uint64_t incarnation_;
  const absl::Duration lease_ttl_;
  // Boottime of the start, of the former leader's last write, or of the clock's last step forward.
  // Stamps pass one TTL later.
  absl::Duration stamps_since_;
  uint64_t steps_seen_ = 0;  // StoreClock::steps() at the last look
  StoreClock clock_;
  bool hold_stored_;
  absl::Duration recorded_;  // boottime of the last clock record written
  absl::Duration batch_boottime_;
  absl::Time batch_time_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_KERNEL_H_
