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
// A step of the handler calls Prepare of all its shards, then TakeDue of all shards for each
// priority (with ageing) in turn, then CommitClaim. So room that is short goes to the events of the
// lowest number first, whichever shard they are in. A claim that is full is committed at once. A
// claim that may not be committed yet, because others are under way, keeps its room and takes more
// rows in the next step.
//
// Rows whose target has no room wait beside the queue, so that they do not hold its head; they are
// claimed before the rows of their priority that are in the queue. Rows of a slow target are
// evicted when too many wait, and are re-read later. When too many rows of a segment (due_queue.h)
// wait for a target that is not slow, the loop takes no rows of the segment until the target has
// room. For on-time rows this ends after kLateAfter.
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
  ~ClaimLoop() { Stop(); }

  // Ends rows that have waited too long for their target, and puts others back into the queue.
  void Prepare(absl::Time now);
  // Takes the due rows whose priority is at most this. Returns the next priority of which rows can
  // be taken, which is greater, or kNothingDue.
  uint8_t TakeDue(absl::Time now, uint8_t priority_max);
  // Commits the claim of the rows that were taken, if there is one and it may be committed.
  void CommitClaim(absl::Time now);

  // The cache has read the records that were missing.
  void OnFetched();

  // Puts the rows of these schedules that wait for their target back into the queue, so that they
  // are judged again.
  void RequeueBlocked(const absl::flat_hash_set<Uid>& schedules);

  // Ends a row, due or not, whose schedule is deleted or whose run is cancelled. Any other row
  // stays where it is. Returns false if a record for the judgement is missing; the cache has been
  // asked for it.
  bool EndUnwanted(QueuedRow row);

  // Commits no further claim.
  void Stop();

  bool committing() const { return commits_ > 0; }
  // True if rows wait for a target, or were evicted. Time alone may give the target room
  // (kSlowTargetAfter), so Step must be called now and then.
  bool blocked() const { return !blocked_.empty() || !evicted_.empty(); }
  size_t blocked_rows() const { return blocked_rows_; }

 private:
  // TakeDue's step after a row: take the next one, take no more, or take no more rows of the row's
  // segment.
  enum class Next { kContinue, kStop, kHeldUp };
  // The rows that wait for one target. Each keeps its judgement.
  struct Blocked {
    std::map<uint8_t, std::deque<QueuedRow>> rows = {};  // by segment; none is empty
    size_t bytes = 0;
    size_t on_time_rows() const;
  };
  // Returns the judgement that the row keeps. Null if it has none, or another one is due: its
  // schedule has changed, or it is missed by now. It may be kFetch.
  std::unique_ptr<ResolvedRow> TakeResolved(QueuedRow& row, absl::Time now) const;
  void Requeue(QueuedRow row);
  bool MayClaim() const;
  // The segments of which rows may be taken from the queue now.
  DueQueue::Segments TakeableNow(absl::Time now) const;
  bool BlockedBytesFull() const { return blocked_bytes_ >= state_.core.options.blocked_bytes_max; }
  // Subtracts a row that has left `blocked` from the counts.
  void CountUnblocked(Blocked& blocked, const QueuedRow& row);
  using Segment = std::map<uint8_t, std::deque<QueuedRow>>::iterator;
  QueuedRow TakeFirst(Blocked& blocked, Segment segment);
  // Keeps the rows for which `stays` is true. It has taken the others.
  template <typename Stays>
  void KeepRows(Blocked& blocked, Stays stays);
  // Evicts the waiting rows of slow targets, then those of the targets with most waiting bytes.
  void EvictRows();
  void EvictTarget(const std::string& target, Blocked& blocked);
  // True if another row may be added to the claim.
  bool HasRoom() const;
  void Unblock(absl::Time now);
  // Ends the waiting rows that are missed or whose retries are over. If their target takes none,
  // also those that are too old for another attempt.
  void EndLateBlockedRows(absl::Time now);
  // True if the row has been taken, because it is too old.
  bool FailIfTooOld(absl::Time now, const SendLoop::Hold& hold, QueuedRow& row,
                    ResolvedRow& resolved);
  // Lets a pause of the row's target end in time for an attempt before the row is too old.
  void CutPause(absl::Time now, const std::string& room_key, const SendLoop::Hold& hold,
                const ResolvedRow& resolved);
  // TakeDue, until the claim must be committed.
  uint8_t FillClaim(absl::Time now, uint8_t priority_max);
  // Claims on-time rows whose target has room again. If no on-time row is due, also other rows.
  uint8_t ClaimUnblocked(absl::Time now, uint8_t priority_max);
  Next Consider(absl::Time now, QueuedRow row);
  // Parks, skips, moves or drops the row, as it was judged.
  void EndUnclaimed(absl::Time now, QueuedRow row, ResolvedRow&& resolved);
  void FailLateRetry(QueuedRow row, ResolvedRow&& resolved);
  // Puts the row back into the queue after this time, unless another reading has done so by then.
  void RequeueAfter(absl::Duration after, QueuedRow row);
  // The result of SendLoop::Room, which is not asked again for each row.
  uint64_t RoomOf(const std::string& room_key);
  // `room_key`: what SendLoop::RoomKey gives for the row.
  Next AddToClaim(absl::Time now, const std::string& room_key, QueuedRow row,
                  std::unique_ptr<ResolvedRow> resolved);
  Next BlockRow(absl::Time now, const std::string& target, QueuedRow row,
                std::unique_ptr<ResolvedRow> resolved);
  // The claim that rows are added to.
  ClaimBatch& OpenBatch();
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
  // The room for this key, less what FillClaim has taken since it asked. Empty: it has not asked.
  std::string room_key_;
  uint64_t room_ = 0;
  std::optional<ClaimBatch> batch_;          // has rows, whose room is reserved
  std::vector<QueuedRow> awaiting_records_;  // the cache is reading their records
  std::vector<QueuedRow> for_next_claim_;    // their timeouts do not fit this claim
  size_t superseded_waiting_ = 0;            // rows of RequeueAfter
  std::map<std::string, Blocked> blocked_;   // by SendLoop::RoomKey; the row keys are held
  size_t blocked_rows_ = 0;                  // for all targets
  size_t blocked_bytes_ = 0;                 // for all targets
  std::set<std::string> evicted_;            // targets whose rows were evicted
  absl::Duration blocked_checked_ = -absl::InfiniteDuration();  // Clock::Elapsed
  absl::Duration last_rewind_ = -absl::InfiniteDuration();      // Clock::Elapsed
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
