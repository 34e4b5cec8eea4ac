// ClaimLoop: claims the due rows of one queue shard. RetrySweep: ends its waiting retries early
// when they are not wanted any more.

#ifndef SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/handler/claims/suspect_loop.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/sending/send_loop.h"
#include "services/handler/shard/claim_batch.h"
#include "services/handler/shard/row_resolver.h"
#include "services/handler/shard/shard_loader.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

// ClaimLoop: takes the due rows of one queue shard, judges them, and claims many in one commit.
//
// Rows whose target has no room wait beside the queue, so that they do not hold its head. Rows of a
// slow target are evicted when too many wait, and are re-read later. When too many rows wait for a
// target that is not slow, the loop takes no rows of their kind (on time or background) until the
// target has room. For on-time rows this ends after kLateAfter.
//
// Rows whose target is down (target_use.h) or has asked for a pause (target_pace.h) wait in the
// same way. Their events fail when they are older than max_age (granted_loop.h).
//
// Threads: one, the handler's executor.
class ClaimLoop {
 public:
  // All arguments must outlive it.
  ClaimLoop(QueueShardState& state, ShardLoader& loader, EndLoop& ends, SuspectLoop& suspects)
      : state_(state), loader_(loader), ends_(ends), suspects_(suspects) {}

  void Step(absl::Time now);

  // The cache has read the records that were missing.
  void OnFetched();

  // Puts the rows of these schedules that wait for their target back into the queue, so that they
  // are judged again.
  void RequeueBlocked(const absl::flat_hash_set<Uid>& schedules);

  // Ends a row, due or not, whose schedule is deleted or whose run is cancelled. Any other row
  // stays where it is. Returns false if a record for the judgement is missing; the cache has been
  // asked for it.
  bool EndUnwanted(QueuedRow row);

  // Begins no further claim.
  void Stop() { stopped_ = true; }

  bool committing() const { return commits_ > 0; }
  // True if rows wait for a target, or were evicted. Time alone may give the target room
  // (kSlowTargetAfter), so Step must be called now and then.
  bool blocked() const { return !blocked_.empty() || !evicted_.empty(); }
  size_t blocked_rows() const { return blocked_rows_; }

 private:
  // MakeClaim's step after a row: take the next one, end the claim, or take no more rows of the
  // row's kind.
  enum class Next { kContinue, kStop, kHeldUp };
  // The rows that wait for one target. Each keeps its judgement.
  struct Blocked {
    std::deque<QueuedRow> on_time;
    std::deque<QueuedRow> background;
    std::deque<QueuedRow>& Of(Standing standing) {
      return standing == Standing::kOnTime ? on_time : background;
    }
    size_t bytes = 0;
    bool empty() const { return on_time.empty() && background.empty(); }
  };
  // Returns the judgement that the row keeps. Null if it has none, or its schedule has changed.
  std::unique_ptr<ResolvedRow> TakeResolved(QueuedRow& row) const;
  void Requeue(QueuedRow row);
  bool MayClaim() const;
  // The kinds of rows that may be taken from the queue now.
  DueQueue::Takeable TakeableNow(absl::Time now) const;
  bool BlockedBytesFull() const { return blocked_bytes_ >= state_.core.options.blocked_bytes_max; }
  // Subtracts a row that has left `blocked` from the counts.
  void CountUnblocked(Blocked& blocked, const QueuedRow& row);
  // Evicts the waiting rows of slow targets, then those of the targets with most waiting bytes.
  void EvictRows();
  void EvictTarget(const std::string& target, Blocked& blocked);
  bool HasRoom(const ClaimBatch& batch, size_t rows_max) const;
  void Unblock(absl::Time now);
  // Fails the waiting rows that are too old for another attempt, if their target takes none.
  void FailOldHeldRows(absl::Time now);
  // True if the row has been taken, because it is too old.
  bool FailIfTooOld(absl::Time now, const SendLoop::Hold& hold, QueuedRow& row,
                    ResolvedRow& resolved);
  // Lets a pause of the row's target end in time for an attempt before the row is too old.
  void CutPause(absl::Time now, const std::string& room_key, const SendLoop::Hold& hold,
                const ResolvedRow& resolved);
  // Returns false if no row was due.
  bool MakeClaim(absl::Time now);
  // Claims on-time rows whose target has room again. If no on-time row is due, also late rows.
  void ClaimUnblocked(absl::Time now, ClaimBatch& batch, size_t rows_max);
  Next Consider(absl::Time now, QueuedRow row, ClaimBatch& batch);
  // Parks, skips, moves or drops the row, as it was judged.
  void EndUnclaimed(absl::Time now, QueuedRow row, ResolvedRow&& resolved);
  void FailLateRetry(QueuedRow row, ResolvedRow&& resolved);
  // Puts the row back into the queue after this time, unless another reading has done so by then.
  void RequeueAfter(absl::Duration after, QueuedRow row);
  // `room_key`: what SendLoop::RoomKey gives for the row.
  Next AddToClaim(absl::Time now, const std::string& room_key, QueuedRow row,
                  std::unique_ptr<ResolvedRow> resolved, ClaimBatch& batch);
  Next BlockRow(absl::Time now, const std::string& target, QueuedRow row,
                std::unique_ptr<ResolvedRow> resolved);
  void Commit(absl::Time now, ClaimBatch batch);
  void OnCommitted(PendingClaim& pending, kv::CommitSeq seq);
  void RequeueAll(PendingClaim& pending);
  void RereadRows(PendingClaim& pending);

  QueueShardState& state_;
  ShardLoader& loader_;
  EndLoop& ends_;
  SuspectLoop& suspects_;
  bool stopped_ = false;
  size_t commits_ = 0;                                // under way
  uint64_t last_number_ = 0;                          // numbers the claims of this epoch
  size_t rows_of_last_claim_ = 0;                     // a guess for the size of the next claim
  absl::Duration not_before_ = absl::ZeroDuration();  // Clock::Elapsed: no claim before this
  std::vector<QueuedRow> awaiting_records_;           // the cache is reading their records
  std::vector<QueuedRow> for_next_claim_;             // their timeouts do not fit this claim
  size_t superseded_waiting_ = 0;                     // rows of RequeueAfter
  std::map<std::string, Blocked> blocked_;            // by SendLoop::RoomKey; the row keys are held
  size_t blocked_rows_ = 0;                           // for all targets
  size_t blocked_bytes_ = 0;                          // for all targets
  std::set<std::string> evicted_;                     // targets whose rows were evicted
  absl::Duration held_checked_ = -absl::InfiniteDuration();  // Clock::Elapsed
  absl::Duration last_rewind_ = -absl::InfiniteDuration();   // Clock::Elapsed
};

// RetrySweep: ends waiting retries early when their schedule is deleted or their run is cancelled.
//
// A pass reads the keys of the shard's retry lane once, then reads, judges and ends the rows of the
// noted schedules. Two passes are at least a second apart, and ten times the duration of the
// earlier one. All schedules noted since the last pass share the next.
//
// Threads: one, the handler's executor.
class RetrySweep {
 public:
  // `state` and `claims` must outlive it.
  RetrySweep(QueueShardState& state, ClaimLoop& claims) : state_(state), claims_(claims) {}

  // The next pass handles the retries of this schedule.
  void Note(const Uid& schedule) { noted_.insert(schedule); }

  void Step();

  // Ends the present pass, and begins no further one.
  void Stop() { stopped_ = true; }

 private:
  void Scan(std::string begin);
  void OnKeys(const kv::ScanResult& keys);
  void ReadRows(std::vector<kv::Key> rows, std::string next);
  // Continues the pass at key `next`; empty: ends the pass.
  void Continue(const std::string& next);

  QueueShardState& state_;
  ClaimLoop& claims_;
  absl::flat_hash_set<Uid> noted_;                        // for the next pass
  absl::flat_hash_set<Uid> sweeping_;                     // empty: no pass is under way
  absl::Duration begun_ = absl::ZeroDuration();           // Clock::Elapsed
  absl::Duration next_pass_ = -absl::InfiniteDuration();  // Clock::Elapsed: no pass before this
  bool stopped_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_
