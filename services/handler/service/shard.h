// Shard: one queue shard that this handler owns, from the acquisition of its lease to its loss.
//
// Rows of the shard:       loader → claims → send loop → ends
// Claims of token managers:  granted → send loop → ends
// Claims of a former owner: takeover → send loop → ends
// Suspects of these three:  suspects → send loop → ends
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SERVICE_SHARD_H_
#define SERVICES_HANDLER_SERVICE_SHARD_H_

#include <memory>
#include <optional>

#include "services/handler/claims/claim_loop.h"
#include "services/handler/claims/granted_loop.h"
#include "services/handler/claims/suspect_loop.h"
#include "services/handler/claims/takeover_loop.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/shard/shard_loader.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class Shard final : public ClaimOwner {
 public:
  // `core` must outlive the shard.
  Shard(HandlerCore& core, const lease::HeldLease& lease, kv::Condition fence);
  // Called when the lease is lost. Claims and callbacks that are under way then have no effect.
  ~Shard() override;

  void Start();
  // A step of the handler calls Load of all its shards, then TakeDue for each priority in turn
  // (ClaimLoop), then Finish.
  void Load(absl::Time now);
  uint8_t TakeDue(absl::Time now, uint8_t priority_max) {
    return claims_.TakeDue(now, priority_max);
  }
  void Finish(absl::Time now);
  void OnFetched() {
    claims_.OnFetched();
    granted_.OnFetched();
  }

  // The schedule was deleted, or a run of it was cancelled.
  void OnRunsEnded(const Uid& schedule) { retry_sweep_.Note(schedule); }

  // Takes no further work. `done` runs once every claim has ended, or after
  // HandlerOptions::drain_max.
  void Drain(Closure done);

  // When a step has something to do next: in store time after `now` (NextDue), and in
  // Clock::Elapsed (NextStep). nullopt: nothing is planned.
  std::optional<absl::Time> NextDue(absl::Time now) const;
  std::optional<absl::Duration> NextStep() const { return ends_.NextStep(); }
  bool blocked() const { return claims_.blocked() || granted_.blocked() || suspects_.blocked(); }
  bool draining() const { return draining_; }
  bool drained() const { return draining_ && !drained_; }
  // Since when rows are due that are not claimed: the first that is known, or the time until which
  // the shard has been read. `now` or later: there are none.
  absl::Time FirstDue(absl::Time now);
  size_t rows() const { return state_->queue.rows() + claims_.blocked_rows(); }
  const kv::Condition& fence() const { return state_->fence; }

  // ClaimOwner
  Check BeforeSend(const std::shared_ptr<Claim>& claim, uint32_t entry, uint64_t first,
                   uint64_t count) override;
  void OnResult(const std::shared_ptr<Claim>& claim, AttemptEnd end) override;

 private:
  void CheckDrained();
  void CountHeartbeat(absl::Duration late);
  bool MayBeSent(const Claim& claim, const ClaimedEntry& entry) const;

  absl::Time read_to_ = absl::InfinitePast();     // until then the loader kept up; not before Start
  const std::shared_ptr<QueueShardState> state_;  // shared only with callbacks that hold it weakly
  ShardLoader loader_;
  EndLoop ends_;
  SuspectLoop suspects_;
  ClaimLoop claims_;
  RetrySweep retry_sweep_;
  GrantedLoop granted_;
  TakeoverLoop takeover_;
  bool draining_ = false;
  Closure drained_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SERVICE_SHARD_H_
