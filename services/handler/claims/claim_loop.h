// ClaimLoop: takes the rows of one queue shard that fall due, judges them, and claims them many at
// a time.
//
// Rows whose target has no room wait beside the queue; those of a slow target are let go of when
// there are too many, and read again when it has room, so that it neither holds the head of the
// queue nor fills the memory. When too many wait for a target that is not slow, nothing of their
// kind is taken until it has room: overdue and background work does not hold up what is on time,
// and on-time work does not for long (Options::overdue_after).
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/handler/claims/claim_batch.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/intake/row_resolver.h"
#include "services/handler/intake/shard_loader.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

class ClaimLoop {
 public:
  // `loader` and `ends` outlive it.
  ClaimLoop(ShardState& state, ShardLoader& loader, EndLoop& ends)
      : state_(state), loader_(loader), ends_(ends) {}

  void Step(absl::Time now);

  // The cache has read what was not known.
  void OnFetched();

  // Rows of these schedules that wait for their target are judged again.
  void ConsiderAgain(const absl::flat_hash_set<Uid>& schedules);

  // Ends a row, due or not, whose schedule is deleted or whose run is cancelled; leaves any other
  // row where it is. False: the cache has been asked for what is needed to judge it.
  bool EndUnwanted(QueuedRow row);

  // No further claim is begun.
  void Stop() { stopped_ = true; }

  bool committing() const { return commits_ > 0; }
  // Rows wait for a target: what frees it is not always an event of this handler's (see
  // Options::slow_target_after).
  bool blocked() const { return !blocked_.empty() || !evicted_.empty(); }
  size_t blocked_rows() const { return blocked_rows_; }

 private:
  enum class Next { kGoOn, kStop, kHeldUp };
  struct Blocked {  // what waits for one target; all are resolved
    std::deque<QueuedRow> on_time;
    std::deque<QueuedRow> background;
    std::deque<QueuedRow>& Of(Standing standing) {
      return standing == Standing::kOnTime ? on_time : background;
    }
    size_t bytes = 0;
    bool empty() const { return on_time.empty() && background.empty(); }
  };
  std::unique_ptr<ResolvedRow> TakeResolved(QueuedRow& row) const;
  void Requeue(QueuedRow row);
  bool MayClaim() const;
  // Of what more may be taken from the queue.
  DueQueue::Takeable MayTake(absl::Time now) const;
  // More waits for targets than may.
  bool Crowded() const { return blocked_bytes_ >= state_.core.options.blocked_bytes_max; }
  void OnUnblocked(Blocked& blocked, const QueuedRow& row);
  // Of slow targets' rows first; then of those of whom most waits.
  void LetGo();
  void LetGoOf(const std::string& target, Blocked& blocked);
  bool HasRoom(const ClaimBatch& batch, size_t rows_max) const;
  void Unblock(absl::Time now);
  // False: nothing was due.
  bool MakeClaim(absl::Time now);
  // On-time rows whose target has room again, and if nothing on time is due, overdue ones.
  void TakeUnblocked(absl::Time now, ClaimBatch& batch, size_t rows_max);
  Next Consider(absl::Time now, QueuedRow row, ClaimBatch& batch);
  // It is parked, skipped, moved or dropped, as it was judged.
  void EndUnclaimed(absl::Time now, QueuedRow row, ResolvedRow&& resolved);
  void GiveUp(QueuedRow row, ResolvedRow&& resolved);
  // Considers it again then, unless it has been taken up anew by that time.
  void LookAgain(absl::Duration after, QueuedRow row);
  Next Take(absl::Time now, QueuedRow row, std::unique_ptr<ResolvedRow> resolved,
            ClaimBatch& batch);
  Next Block(absl::Time now, const std::string& target, QueuedRow row,
             std::unique_ptr<ResolvedRow> resolved);
  void Commit(absl::Time now, ClaimBatch batch);
  void OnCommitted(PendingClaim& pending, kv::CommitSeq seq);
  void PutBack(PendingClaim& pending);
  void ReadAgain(PendingClaim& pending);

  ShardState& state_;
  ShardLoader& loader_;
  EndLoop& ends_;
  bool stopped_ = false;
  size_t commits_ = 0;
  uint64_t last_number_ = 0;  // of claims of this epoch
  size_t rows_of_last_ = 0;   // the next claim will have as many, or not
  absl::Duration not_before_ =
      absl::ZeroDuration();                 // Clock::Elapsed: after "no room" from the store
  std::vector<QueuedRow> unknown_;          // wait for the cache
  std::vector<QueuedRow> aside_;            // for the next claim
  size_t passing_ = 0;                      // rows of LookAgain
  std::map<std::string, Blocked> blocked_;  // by target; keys are held
  size_t blocked_rows_ = 0;                 // of all of them
  size_t blocked_bytes_ = 0;
  std::set<std::string> evicted_;                       // targets of which rows were let go of
  absl::Duration rewound_ = -absl::InfiniteDuration();  // Clock::Elapsed
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_CLAIM_LOOP_H_
