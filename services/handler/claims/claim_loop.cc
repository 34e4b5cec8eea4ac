#include "services/handler/claims/claim_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/backoff/retry_plan.h"
#include "common/base/micros.h"
#include "common/records/retry_end.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/storage/occurrence_rows.h"
#include "services/handler/claims/claim_lead.h"

namespace escapement::handler {
namespace {

// Of the rows of one claim: whoever takes it over, or finds one of them changed, reads them again.
constexpr size_t kClaimRowBytesMax = 16 << 20;
constexpr size_t kClaimBytesMax = 2 << 20;  // of one ClaimRecord; half of what a value may be
// Rows that wait for one read of the cache; more would be judged anew after each read.
constexpr size_t kUnknownMax = 500;
constexpr absl::Duration kRewindEvery = absl::Seconds(1);
constexpr size_t kPassingMax = 4096;  // superseded rows that wait; more are ended at once

// The claim was not made (or its shard is lost): the room is there for others.
void Unreserve(SendLoop& sends, const PendingClaim& pending) {
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    sends.Unreserve(pending.claim->entries[i].context->target_key, pending.taken[i].count);
  }
}

// What the row was judged to be; null if it has not been or its schedule has changed since.
std::unique_ptr<ResolvedRow> TakeResolved(const ShardState& state, QueuedRow& row) {
  std::unique_ptr<ResolvedRow> resolved = row.TakeResolved();
  if (resolved != nullptr && resolved->state != nullptr &&
      resolved->state != state.core.cache.StateIfKnown(resolved->entry.key.uid))
    resolved.reset();
  return resolved;
}

void Requeue(ShardState& state, QueuedRow row) {
  state.held.erase(row.key());
  state.queue.Add(std::move(row));
}

// In memory: its payload once as it is in the store, once as it is sent.
size_t BlockedBytes(const QueuedRow& row) { return 2 * row.value().size() + 1024; }

}  // namespace

void ClaimLoop::Step(absl::Time now) {
  const std::shared_ptr<ShardState> state = state_.lock();
  if (stopped_ || !state->core.lease_valid(state->shard)) return;
  if (state->core.runtime.clock().Elapsed() < not_before_) return;
  Unblock(*state, now);
  while (MakeClaim(*state, now)) {
  }
  state->core.cache.Fetch();
}

bool ClaimLoop::MayClaim(ShardState& state) const {
  const HandlerOptions& options = state.core.options;
  const size_t commits_max = Perturb(state.core.runtime, Site::kHandlerOneClaimOutstanding)
                                 ? 1
                                 : options.claims_outstanding_max;
  return commits_ < commits_max && !state.core.sends.full() && unknown_.size() < kUnknownMax;
}

DueQueue::Takeable ClaimLoop::MayTake(ShardState& state, absl::Time now) const {
  const HandlerOptions& options = state.core.options;
  DueQueue::Takeable may;
  for (const auto& [target, rows] : blocked_) {
    const bool on_time = rows.on_time.size() >= options.blocked_rows_max;
    const bool background = rows.background.size() >= options.blocked_rows_max;
    // A target that is full for the moment only is waited for.
    if ((!on_time && !background) || state.core.sends.Slow(target)) continue;
    if (on_time && !loader_.Overdue(rows.on_time.back().key(), now)) may.on_time = false;
    if (background) may.background = false;
  }
  return may;
}

void ClaimLoop::OnFetched() {
  const std::shared_ptr<ShardState> state = state_.lock();
  for (QueuedRow& row : unknown_) Requeue(*state, std::move(row));
  unknown_.clear();
}

void ClaimLoop::Unblock(ShardState& state, absl::Time now) {
  // On-time rows go first, and straight into the next claim (TakeUnblocked); the others take their
  // share in the queue again if there is anything to share with.
  const bool shares = state.queue.OnTimeDue(state.core.lead.Until(now));
  for (auto target = blocked_.begin(); target != blocked_.end();) {
    std::deque<QueuedRow>& rows = target->second.background;
    uint64_t room = state.core.sends.Room(target->first);
    room -= std::min<uint64_t>(room, target->second.on_time.size());
    for (; shares && room > 0 && !rows.empty(); --room) {
      OnUnblocked(target->second, rows.front());
      Requeue(state, std::move(rows.front()));
      rows.pop_front();
    }
    target = target->second.empty() ? blocked_.erase(target) : std::next(target);
  }
  const absl::Duration elapsed = state.core.runtime.clock().Elapsed();
  if (evicted_.empty() || elapsed < rewound_ + kRewindEvery) return;
  for (auto target = evicted_.begin(); target != evicted_.end(); ++target) {
    if (blocked_.contains(*target) || state.core.sends.Room(*target) == 0) continue;
    // All lanes are read again: other targets' rows among them may be let go of again.
    evicted_.erase(target);
    rewound_ = elapsed;
    loader_.Rewind();
    return;
  }
}

bool ClaimLoop::HasRoom(ShardState& state, const ClaimBatch& batch, size_t rows_max) const {
  return batch.rows() < rows_max && batch.room() > 0 && batch.bytes() < kClaimBytesMax &&
         batch.row_bytes() < kClaimRowBytesMax && !state.core.sends.full();
}

void ClaimLoop::TakeUnblocked(ShardState& state, absl::Time now, ClaimBatch& batch,
                              size_t rows_max) {
  const auto take = [&](const std::string& target, Blocked& blocked, std::deque<QueuedRow>& rows) {
    uint64_t requeued = 0;  // the room is theirs
    while (!rows.empty() && state.core.sends.Room(target) > requeued &&
           HasRoom(state, batch, rows_max)) {
      QueuedRow row = std::move(rows.front());
      rows.pop_front();
      OnUnblocked(blocked, row);
      std::unique_ptr<ResolvedRow> resolved;
      // Of a retry it is to be seen whether it still is to be made.
      if (row.standing() != Standing::kBackground) resolved = TakeResolved(state, row);
      if (resolved != nullptr) {
        Take(state, now, std::move(row), std::move(resolved), batch);
      } else {
        Requeue(state, std::move(row));
        ++requeued;
      }
    }
  };
  for (auto& [target, blocked] : blocked_) take(target, blocked, blocked.on_time);
  if (state.queue.OnTimeDue(state.core.lead.Until(now))) return;
  for (auto& [target, blocked] : blocked_) take(target, blocked, blocked.background);
}

bool ClaimLoop::MakeClaim(ShardState& state, absl::Time now) {
  if (!MayClaim(state)) return false;
  const HandlerOptions& options = state.core.options;
  auto claim = std::make_shared<Claim>();
  claim->id = {.shard = state.shard, .epoch = state.lease.epoch, .number = last_number_ + 1};
  const size_t rows_max =
      Perturb(state.core.runtime, Site::kHandlerClaimOfOneRow) ? 1 : options.claim_rows_max;
  const uint64_t events_max =
      Perturb(state.core.runtime, Site::kHandlerClaimOfOneEvent) ? 1 : options.claim_events_max;
  ClaimBatch batch(std::move(claim), events_max, rows_of_last_);
  TakeUnblocked(state, now, batch, rows_max);
  if (Crowded(state)) LetGo(state);
  const absl::Time until = state.core.lead.Until(now);
  for (DueQueue::Takeable may = MayTake(state, now);
       may.any() && HasRoom(state, batch, rows_max);) {
    std::optional<QueuedRow> row = state.queue.Take(until, may);
    if (!row.has_value()) break;
    // In hand already: a late answer has queued a row that the loader had found before it, and that
    // is claimed by now.
    if (!state.held.insert(std::string(row->key())).second) continue;
    const Standing standing = row->standing();
    const Next next = Consider(state, now, *std::move(row), batch);
    if (next == Next::kHeldUp)
      (standing == Standing::kOnTime ? may.on_time : may.background) = false;
    if (next == Next::kStop) break;
  }
  for (QueuedRow& row : aside_) Requeue(state, std::move(row));
  aside_.clear();
  if (batch.rows() == 0) return false;
  ++last_number_;
  rows_of_last_ = batch.rows();
  Commit(state, now, std::move(batch));
  return true;
}

ClaimLoop::Next ClaimLoop::Consider(ShardState& state, absl::Time now, QueuedRow row,
                                    ClaimBatch& batch) {
  std::unique_ptr<ResolvedRow> judged = TakeResolved(state, row);
  if (judged == nullptr) judged = ResolveRow(state.core.cache, row.key(), row.value());
  ResolvedRow& resolved = *judged;
  const absl::Time ends_at = SupersededEndsAt(resolved.entry.event);
  if (resolved.action == ResolvedRow::Action::kSkip && resolved.reason == kSuperseded &&
      now < ends_at && passing_ < kPassingMax) {
    LookAgain(state, ends_at - now, std::move(row));
    return Next::kGoOn;
  }
  switch (resolved.action) {
    case ResolvedRow::Action::kFetch:
      unknown_.push_back(std::move(row));
      return unknown_.size() < kUnknownMax ? Next::kGoOn : Next::kStop;
    case ResolvedRow::Action::kPark:
    case ResolvedRow::Action::kSkip:
    case ResolvedRow::Action::kMove:
    case ResolvedRow::Action::kDrop:
      EndUnclaimed(state, now, std::move(row), std::move(resolved));
      return Next::kGoOn;
    case ResolvedRow::Action::kBroken:
      // It stays where it is, held: nothing can be said of it, and nothing must be done to it.
      state.core.metrics.broken_rows.Increment();
      return Next::kGoOn;
    case ResolvedRow::Action::kSend:
      if (RetryIsOver(resolved.entry.event, *resolved.entry.context->definition,
                      resolved.entry.context->timetable.get(), resolved.state.get(), now)) {
        GiveUp(std::move(row), std::move(resolved));
        return Next::kGoOn;
      }
      return Take(state, now, std::move(row), std::move(judged), batch);
  }
  return Next::kGoOn;
}

void ClaimLoop::EndUnclaimed(ShardState& state, absl::Time now, QueuedRow row,
                             ResolvedRow&& resolved) {
  EndKind kind = resolved.outcome == storage::v1::OUTCOME_KIND_CANCELLED ? EndKind::kCancelled
                                                                         : EndKind::kSkipped;
  std::vector<kv::Mutation> moved;
  if (resolved.action == ResolvedRow::Action::kMove) {
    kind = EndKind::kMove;
    AddMovedRow(SourceOf(*resolved.moved_to), resolved.entry.event, resolved.entry.key.occurrence,
                resolved.entry.key.first, resolved.entry.key.due_time, state.core.layout, now,
                &moved);
  }
  if (resolved.action == ResolvedRow::Action::kPark) kind = EndKind::kPark;
  if (resolved.action == ResolvedRow::Action::kDrop) kind = EndKind::kGone;
  ends_.AddRow({.entry = std::move(resolved.entry),
                .payload = std::move(resolved.payload),
                .kind = kind,
                .reason = std::move(resolved.reason),
                .moved = std::move(moved)},
               std::move(row), std::move(resolved.state));
}

void ClaimLoop::ConsiderAgain(const absl::flat_hash_set<Uid>& schedules) {
  const std::shared_ptr<ShardState> state = state_.lock();
  for (auto& [target, blocked] : blocked_) {
    for (std::deque<QueuedRow>* rows : {&blocked.on_time, &blocked.background}) {
      std::deque<QueuedRow> kept;
      for (QueuedRow& row : *rows) {
        const std::optional<EventKey> key = DecodeEventKey(row.key());
        if (!key.has_value() || !schedules.contains(key->uid)) {
          kept.push_back(std::move(row));
          continue;
        }
        OnUnblocked(blocked, row);
        Requeue(*state, std::move(row));
      }
      *rows = std::move(kept);
    }
  }
}

bool ClaimLoop::EndUnwanted(QueuedRow row) {
  const std::shared_ptr<ShardState> state = state_.lock();
  // In hand: it is about to be judged.
  if (state->held.contains(row.key())) return true;
  std::unique_ptr<ResolvedRow> resolved = ResolveRow(state->core.cache, row.key(), row.value());
  if (resolved->action == ResolvedRow::Action::kFetch) return false;
  if (resolved->action != ResolvedRow::Action::kSkip || resolved->reason == kSuperseded)
    return true;
  state->queue.Remove(row.key());
  state->held.insert(std::string(row.key()));
  EndUnclaimed(*state, state->core.client.NowLow(), std::move(row), std::move(*resolved));
  return true;
}

void ClaimLoop::LookAgain(ShardState& state, absl::Duration after, QueuedRow row) {
  ++passing_;
  state.held.erase(row.key());
  state.core.executor->PostAfter(after, [this, weak = state_, row = std::move(row)]() mutable {
    const std::shared_ptr<ShardState> state = weak.lock();
    if (state == nullptr) return;
    --passing_;
    if (!state->held.contains(row.key()) && !state->queue.Contains(row.key()))
      state->queue.Add(std::move(row));
    state->core.wake();
  });
}

// It was to be tried again before the schedule's next occurrence.
void ClaimLoop::GiveUp(QueuedRow row, ResolvedRow&& resolved) {
  std::string reason = PastNextOccurrence(resolved.entry.event.last_error());
  ends_.AddRow({.entry = std::move(resolved.entry),
                .payload = std::move(resolved.payload),
                .kind = EndKind::kFailed,
                .reason = std::move(reason)},
               std::move(row), std::move(resolved.state));
}

ClaimLoop::Next ClaimLoop::Take(ShardState& state, absl::Time now, QueuedRow row,
                                std::unique_ptr<ResolvedRow> resolved, ClaimBatch& batch) {
  const std::string& target = resolved->entry.context->target_key;
  const uint64_t room = state.core.sends.Room(target);
  if (room == 0) return Block(state, now, target, std::move(row), std::move(resolved));
  if (!batch.Fits(resolved->entry.context->timeout)) {
    row.KeepResolved(std::move(resolved));
    aside_.push_back(std::move(row));
    return aside_.size() < state.core.options.claim_rows_max ? Next::kGoOn : Next::kStop;
  }
  const uint64_t count = std::min({resolved->entry.event.count(), room, batch.room()});
  state.core.sends.Reserve(target, count);
  state.queue.NoteTaken(row.standing(), count);
  batch.Add(std::move(row), std::move(resolved->entry), count, resolved->state.get());
  return Next::kGoOn;
}

ClaimLoop::Next ClaimLoop::Block(ShardState& state, absl::Time now, const std::string& target,
                                 QueuedRow row, std::unique_ptr<ResolvedRow> resolved) {
  Blocked& blocked = blocked_[target];
  std::deque<QueuedRow>& rows = blocked.Of(row.standing());
  const bool full = rows.size() >= state.core.options.blocked_rows_max;
  if ((full || Crowded(state)) && state.core.sends.Slow(target)) {
    state.held.erase(row.key());
    evicted_.insert(target);
    return Next::kGoOn;
  }
  row.KeepResolved(std::move(resolved));
  if (full && row.standing() == Standing::kOnTime && loader_.Overdue(row.key(), now)) {
    loader_.Demote(std::move(row));
    return Next::kGoOn;
  }
  ++blocked_rows_;
  blocked_bytes_ += BlockedBytes(row);
  blocked.bytes += BlockedBytes(row);
  rows.push_back(std::move(row));
  if (Crowded(state)) LetGo(state);
  return full ? Next::kHeldUp : Next::kGoOn;
}

void ClaimLoop::OnUnblocked(Blocked& blocked, const QueuedRow& row) {
  --blocked_rows_;
  blocked_bytes_ -= BlockedBytes(row);
  blocked.bytes -= BlockedBytes(row);
}

void ClaimLoop::LetGo(ShardState& state) {
  for (auto& [target, blocked] : blocked_) {
    if (state.core.sends.Slow(target)) LetGoOf(state, target, blocked);
  }
  while (Crowded(state)) {
    const auto most = std::max_element(
        blocked_.begin(), blocked_.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    LetGoOf(state, most->first, most->second);
  }
}

// They are read again when the target has room.
void ClaimLoop::LetGoOf(ShardState& state, const std::string& target, Blocked& blocked) {
  if (blocked.empty()) return;
  for (std::deque<QueuedRow>* rows : {&blocked.background, &blocked.on_time}) {
    for (const QueuedRow& row : *rows) {
      OnUnblocked(blocked, row);
      state.held.erase(row.key());
    }
    rows->clear();
  }
  evicted_.insert(target);
}

void ClaimLoop::Commit(ShardState& state, absl::Time now, ClaimBatch batch) {
  kv::Commit commit;
  commit.fence = {state.fence};
  commit.groups.push_back(batch.TakeGroup(ToMicros(now)));
  auto pending = std::make_shared<PendingClaim>(batch.TakePending());
  ++commits_;
  const absl::Duration begun = state.core.runtime.clock().Elapsed();
  state.core.client.CommitAsync(std::move(commit), state.core.executor,
                                [this, weak = state_, pending, begun, &sends = state.core.sends](
                                    absl::StatusOr<kv::CommitResult> result) {
                                  const std::shared_ptr<ShardState> state = weak.lock();
                                  if (state == nullptr) return Unreserve(sends, *pending);
                                  --commits_;
                                  const absl::Duration elapsed =
                                      state->core.runtime.clock().Elapsed();
                                  if (result.ok()) state->core.lead.OnCommitted(elapsed - begun);
                                  if (!result.ok()) {
                                    // Without room in the store it is tried again. Otherwise the
                                    // lease or the session is lost, and the shard is about to be
                                    // dropped: nothing more is claimed.
                                    PutBack(*state, *pending);
                                    not_before_ = elapsed + state->core.options.retry_commit_delay;
                                  } else if (result->verdicts[0].applied) {
                                    OnCommitted(*state, *pending, result->seq);
                                  } else {
                                    ReadAgain(*state, *pending);
                                  }
                                  state->core.wake();
                                });
}

void ClaimLoop::OnCommitted(ShardState& state, PendingClaim& pending, kv::CommitSeq seq) {
  const std::shared_ptr<Claim>& claim = pending.claim;
  state.core.metrics.claims.Increment();
  claim->order = ++state.core.last_claim_order;
  claim->owner = state.owner;
  claim->judged = FromMicros(claim->claim_time_micros);
  state.claims[claim->order] = claim;
  for (uint32_t i = 0; i < claim->entries.size(); ++i) {
    const ClaimedEntry& entry = claim->entries[i];
    if (!entry.row_stays) state.held.erase(entry.event_key);
    state.core.sends.Add(claim, i, pending.taken[i].first, pending.taken[i].count,
                         entry.key.due_time);
  }
  for (QueuedRow& row : pending.remainders) {
    row.set_seq(seq);
    state.queue.Add(std::move(row));
  }
}

void ClaimLoop::PutBack(ShardState& state, PendingClaim& pending) {
  Unreserve(state.core.sends, pending);
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    state.held.erase(pending.rows[i].key());
    state.queue.Add(std::move(pending.rows[i]));
  }
}

// One row or state of the claim is not as it was: all of them are read anew.
void ClaimLoop::ReadAgain(ShardState& state, PendingClaim& pending) {
  state.core.metrics.claims_failed.Increment();
  Unreserve(state.core.sends, pending);
  std::vector<kv::Key> keys;
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    const ClaimedEntry& entry = pending.claim->entries[i];
    if (!entry.one_off()) state.core.cache.ForgetState(entry.key.uid);
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.event_key});
  }
  state.core.client.MultiGet(
      keys, state.core.executor, [weak = state_, keys](absl::StatusOr<kv::GetResult> result) {
        const std::shared_ptr<ShardState> state = weak.lock();
        if (state == nullptr || !result.ok()) return;
        for (size_t i = 0; i < keys.size(); ++i) {
          state->held.erase(keys[i].key);
          if (!result->values[i].has_value()) continue;
          state->queue.Add(QueuedRow(keys[i].key, *result->values[i], result->seq));
        }
        state->core.wake();
      });
}

}  // namespace escapement::handler
