#include "services/handler/claims/claim_loop.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "common/backoff/backoff.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "services/handler/base/options.h"
#include "services/handler/claims/granted_loop.h"
#include "services/handler/sending/send_loop.h"

namespace escapement::handler {

namespace {

// Rows that wait for one read of the cache. All of them are judged again after each read.
constexpr size_t kAwaitingRecordsMax = 500;
constexpr size_t kSupersededWaitingMax =
    4096;  // superseded rows that wait; further ones end at once

// Gives the room back after a claim has failed, or its shard is lost.
void Unreserve(SendLoop& sends, const PendingClaim& pending) {
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    sends.Unreserve(pending.claim->entries[i].room_key(), pending.taken[i].count);
  }
}

// One-off events are retried until they are too old.
bool RetryIsOver(const ResolvedRow& row, absl::Time now) {
  const EventRow& event = row.entry.event;
  return !event.one_off() && event.attempts() > 0 &&
         RetryIsOver(event.record(), *row.entry.context->definition,
                     row.entry.context->cached->timetable.get(), row.judged->state.get(), now);
}

}  // namespace

std::unique_ptr<ResolvedRow> ClaimLoop::TakeResolved(QueuedRow& row, absl::Time now) const {
  std::unique_ptr<ResolvedRow> resolved = row.TakeResolved();
  if (resolved == nullptr) return nullptr;
  const bool changed =
      resolved->judged->state != nullptr &&
      resolved->judged->state != state_.core.cache.StateIfKnown(resolved->entry.key.uid);
  return changed || now >= MissedAt(resolved->entry.event) ? nullptr : std::move(resolved);
}

void ClaimLoop::Requeue(QueuedRow row) {
  state_.Release(row.key());
  state_.queue.Add(std::move(row));
}

void ClaimLoop::Prepare(absl::Time now) {
  if (!MayClaim()) return;
  EndLateBlockedRows(now);
  Unblock(now);
}

bool ClaimLoop::MayClaim() const {
  return !stopped_ && state_.core.lease_valid(state_.shard) &&
         state_.core.runtime.clock().Elapsed() >= not_before_;
}

size_t ClaimLoop::Blocked::on_time_rows() const {
  size_t count = 0;
  for (auto segment = rows.begin(); segment != rows.lower_bound(kLaneRetry); ++segment)
    count += segment->second.size();
  return count;
}

DueQueue::Segments ClaimLoop::TakeableNow(absl::Time now) const {
  DueQueue::Segments takeable;
  takeable.set();
  for (const auto& [target, blocked] : blocked_) {
    for (const auto& [segment, rows] : blocked.rows) {
      // Rows of a slow target hold up no other rows: they are evicted instead.
      if (rows.size() < state_.core.options.blocked_rows_max || state_.core.sends.IsSlow(target))
        continue;
      if (StandingOf(segment) != Standing::kOnTime || !loader_.IsLate(rows.back().key(), now))
        takeable.reset(segment);
    }
  }
  return takeable;
}

void ClaimLoop::OnFetched() {
  for (QueuedRow& row : awaiting_records_) Requeue(std::move(row));
  awaiting_records_.clear();
}

bool ClaimLoop::HasRoom() const {
  return !(batch_.has_value() && batch_->full()) && !state_.core.sends.full();
}

ClaimBatch& ClaimLoop::OpenBatch() {
  if (batch_.has_value()) return *batch_;
  auto claim = std::make_shared<Claim>();
  claim->id = {.shard = state_.shard, .epoch = state_.lease.epoch, .number = ++last_number_};
  Runtime& runtime = state_.core.runtime;
  return batch_.emplace(
      std::move(claim),
      ClaimBatch::Bounds{
          .rows = Perturb(runtime, Site::kHandlerClaimOfOneRow) ? 1 : kClaimRowsMax,
          .events = Perturb(runtime, Site::kHandlerClaimOfOneEvent) ? 1 : kClaimEventsMax},
      rows_of_last_claim_);
}

uint8_t ClaimLoop::TakeDue(absl::Time now, uint8_t priority_max) {
  while (MayClaim() && !state_.core.sends.full() &&
         awaiting_records_.size() < kAwaitingRecordsMax) {
    const uint8_t next = FillClaim(now, priority_max);
    const bool full = batch_.has_value() && batch_->full();
    if (!full && for_next_claim_.empty()) return next;
    CommitClaim(now);
    if (batch_.has_value()) break;
  }
  return kNothingDue;
}

uint8_t ClaimLoop::FillClaim(absl::Time now, uint8_t priority_max) {
  room_key_.clear();
  uint8_t next = ClaimUnblocked(now, priority_max);
  if (BlockedBytesFull()) EvictRows();
  const absl::Time until = state_.core.lead.LatestDueClaimedAt(now);
  DueQueue::Segments takeable = TakeableNow(now);
  while (HasRoom()) {
    std::optional<QueuedRow> row = state_.queue.Take(until, takeable, priority_max);
    if (!row.has_value()) return std::min(next, state_.queue.NextPriority(until, takeable));
    // A late answer of the store may have queued a row that is being claimed already.
    if (!state_.held.Add(*row)) continue;
    const uint8_t segment = row->segment();
    switch (Consider(now, *std::move(row))) {
      case Next::kContinue:
        break;
      case Next::kHeldUp:
        takeable.reset(segment);
        break;
      case Next::kStop:
        return kNothingDue;
    }
  }
  return kNothingDue;
}

void ClaimLoop::CommitClaim(absl::Time now) {
  state_.core.cache.Fetch();
  const size_t commits_max =
      Perturb(state_.core.runtime, Site::kHandlerOneClaimOutstanding) ? 1 : kClaimsOutstandingMax;
  if (!batch_.has_value() || !MayClaim() || commits_ >= commits_max) return;
  for (QueuedRow& row : for_next_claim_) Requeue(std::move(row));
  for_next_claim_.clear();
  rows_of_last_claim_ = batch_->rows();
  Commit(now, *std::exchange(batch_, std::nullopt));
}

void ClaimLoop::Stop() {
  stopped_ = true;
  if (batch_.has_value()) Unreserve(state_.core.sends, batch_->TakePending());
  batch_.reset();
}

ClaimLoop::Next ClaimLoop::Consider(absl::Time now, QueuedRow row) {
  std::unique_ptr<ResolvedRow> judged = TakeResolved(row, now);
  if (judged == nullptr) {
    judged = ResolveRow(state_.core.cache, row);
  } else if (judged->Is(RowJudgement::Action::kFetch)) {
    JudgeAgain(state_.core.cache, *judged);
  }
  ResolvedRow& resolved = *judged;
  if (!resolved.judged.has_value()) {
    // The row stays in the store, and its key stays held: nothing can be done with it.
    state_.core.metrics.broken_rows.Increment();
    return Next::kContinue;
  }
  if (resolved.judged->superseded() && superseded_waiting_ < kSupersededWaitingMax) {
    const absl::Time ends_at = SupersededEndsAt(resolved.entry.event.record());
    if (now < ends_at) {
      RequeueAfter(ends_at - now, std::move(row));
      return Next::kContinue;
    }
  }
  switch (resolved.judged->action) {
    case RowJudgement::Action::kFetch:
      row.KeepResolved(std::move(judged));
      awaiting_records_.push_back(std::move(row));
      return awaiting_records_.size() < kAwaitingRecordsMax ? Next::kContinue : Next::kStop;
    case RowJudgement::Action::kPark:
    case RowJudgement::Action::kSkip:
    case RowJudgement::Action::kMove:
    case RowJudgement::Action::kDrop:
      EndUnclaimed(now, std::move(row), std::move(resolved));
      return Next::kContinue;
    case RowJudgement::Action::kSend:
      break;
  }
  if (now >= MissedAt(resolved.entry.event)) {
    resolved.judged->action = RowJudgement::Action::kSkip;
    resolved.judged->outcome = storage::v1::OUTCOME_KIND_EXPIRED;
    resolved.judged->reason = MissedBy(resolved.entry.event.MakeRecord(), now);
    EndUnclaimed(now, std::move(row), std::move(resolved));
    return Next::kContinue;
  }
  if (RetryIsOver(resolved, now)) {
    FailLateRetry(std::move(row), std::move(resolved));
    return Next::kContinue;
  }
  const std::string& room_key = state_.core.sends.RoomKey(resolved.entry);
  if (const auto hold = state_.core.sends.HoldOf(room_key); hold.has_value()) {
    if (FailIfTooOld(now, *hold, row, resolved)) return Next::kContinue;
    CutPause(now, room_key, *hold, resolved);
  }
  return AddToClaim(now, room_key, std::move(row), std::move(judged));
}

void ClaimLoop::EndUnclaimed(absl::Time now, QueuedRow row, ResolvedRow&& resolved) {
  RowJudgement& judged = *resolved.judged;
  const EndKind kind = EndKindOf(judged);
  std::vector<kv::Mutation> moved;
  if (kind == EndKind::kMove) {
    const EventKey& key = resolved.entry.key;
    AddMovedRow(SourceOf(*judged.definition->record), resolved.entry.event.record(), key.occurrence,
                key.first, key.due_time, state_.core.layout, now, moved);
  }
  ends_.AddRow({.entry = std::move(resolved.entry),
                .payload = std::move(resolved.payload),
                .kind = kind,
                .reason = std::move(judged.reason),
                .moved = std::move(moved)},
               std::move(row), std::move(judged.state));
}

bool ClaimLoop::EndUnwanted(QueuedRow row) {
  // A loop works on the row, and judges it soon.
  if (state_.held.contains(row.key())) return true;
  std::unique_ptr<ResolvedRow> resolved = ResolveRow(state_.core.cache, row);
  if (resolved->Is(RowJudgement::Action::kFetch)) return false;
  if (!resolved->Is(RowJudgement::Action::kSkip) || resolved->judged->superseded()) return true;
  state_.queue.Remove(row.key());
  CHECK(state_.held.Add(row));
  EndUnclaimed(state_.core.client.NowLow(), std::move(row), std::move(*resolved));
  return true;
}

void ClaimLoop::RequeueAfter(absl::Duration after, QueuedRow row) {
  ++superseded_waiting_;
  state_.Release(row.key());
  state_.core.executor->PostAfter(after, state_.WhileOwned([this, row = std::move(row)]() mutable {
    TakeFrom<size_t>(superseded_waiting_, 1);
    if (!state_.held.contains(row.key()) && !state_.queue.Contains(row.key()))
      state_.queue.Add(std::move(row));
    state_.core.wake();
  }));
}

// The next occurrence of the schedule has come before the retry.
void ClaimLoop::FailLateRetry(QueuedRow row, ResolvedRow&& resolved) {
  std::string reason = PastNextOccurrence(resolved.entry.event.record().last_error());
  ends_.AddRow({.entry = std::move(resolved.entry),
                .payload = std::move(resolved.payload),
                .kind = EndKind::kFailed,
                .reason = std::move(reason)},
               std::move(row), std::move(resolved.judged->state));
}

uint64_t ClaimLoop::RoomOf(const std::string& room_key) {
  if (room_key_ != room_key) {
    room_key_ = room_key;
    room_ = state_.core.sends.Room(room_key);
  }
  return room_;
}

ClaimLoop::Next ClaimLoop::AddToClaim(absl::Time now, const std::string& room_key, QueuedRow row,
                                      std::unique_ptr<ResolvedRow> resolved) {
  ClaimedEntry& entry = resolved->entry;
  const uint64_t room = RoomOf(room_key);
  if (room == 0) return BlockRow(now, room_key, std::move(row), std::move(resolved));
  ClaimBatch& batch = OpenBatch();
  if (!batch.Fits(entry.context->timeout)) {
    row.KeepResolved(std::move(resolved));
    for_next_claim_.push_back(std::move(row));
    return for_next_claim_.size() < kClaimRowsMax ? Next::kContinue : Next::kStop;
  }
  const uint64_t count = std::min({entry.event.count(), room, batch.room()});
  state_.core.sends.Reserve(room_key, count);
  room_ -= count;
  if (&room_key != &entry.context->target_key) entry.room = room_key;
  state_.queue.NoteTaken(row.standing(), count);
  batch.Add(std::move(row), std::move(entry), count, resolved->judged->state.get());
  return Next::kContinue;
}

void ClaimLoop::Commit(absl::Time now, ClaimBatch batch) {
  kv::Commit commit;
  commit.fence = {state_.fence};
  commit.groups.push_back(batch.TakeGroup(ToMicros(now)));
  auto pending = std::make_shared<PendingClaim>(batch.TakePending());
  ++commits_;
  const absl::Duration begun = state_.core.runtime.clock().Elapsed();
  // This callback also acts after the loss of the shard: it must give the room back.
  state_.core.client.CommitAsync(
      std::move(commit), state_.core.executor,
      [this, weak = state_.weak_from_this(), pending, begun,
       &sends = state_.core.sends](absl::StatusOr<kv::CommitResult> result) {
        if (weak.expired()) return Unreserve(sends, *pending);
        TakeFrom<size_t>(commits_, 1);
        const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
        if (result.ok()) state_.core.lead.OnCommitted(elapsed - begun);
        if (!result.ok()) {
          // If the store had no room, the rows are claimed again later. Otherwise the lease or the
          // session is lost, and the shard is about to be dropped.
          RequeueAll(*pending);
          not_before_ = elapsed + kRetryCommitDelay;
        } else if (result->verdicts[0].applied) {
          OnCommitted(*pending, result->seq);
        } else {
          RereadRows(*pending);
        }
        state_.core.wake();
      });
}

void ClaimLoop::OnCommitted(PendingClaim& pending, kv::CommitSeq seq) {
  const std::shared_ptr<Claim>& claim = pending.claim;
  state_.core.metrics.claims.Increment();
  claim->judged = FromMicros(claim->claim_time_micros);
  state_.AddClaim(claim);
  for (uint32_t i = 0; i < claim->entries.size(); ++i) {
    const ClaimedEntry& entry = claim->entries[i];
    if (!entry.row_stays) state_.Release(entry.event_key);
    if (claim->IsSuspect(entry)) {
      state_.core.sends.Unreserve(entry.room_key(), pending.taken[i].count);
      suspects_.Add(claim, i, pending.taken[i].first, pending.taken[i].count);
      continue;
    }
    state_.core.sends.Add(claim, i, pending.taken[i].first, pending.taken[i].count,
                          entry.key.due_time);
  }
  for (QueuedRow& row : pending.remainders) {
    row.set_seq(seq);
    state_.queue.Add(std::move(row));
  }
}

void ClaimLoop::RequeueAll(PendingClaim& pending) {
  Unreserve(state_.core.sends, pending);
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    state_.Release(pending.rows[i].key());
    state_.queue.Add(std::move(pending.rows[i]));
  }
}

// A row or a state of the claim has changed: all its rows and states are read again.
void ClaimLoop::RereadRows(PendingClaim& pending) {
  state_.core.metrics.claims_failed.Increment();
  Unreserve(state_.core.sends, pending);
  std::vector<kv::Key> keys;
  for (size_t i = 0; i < pending.rows.size(); ++i) {
    const ClaimedEntry& entry = pending.claim->entries[i];
    if (!entry.one_off()) state_.core.cache.ForgetState(entry.key.uid);
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = std::string(entry.event_key)});
  }
  state_.core.client.MultiGet(
      keys, state_.core.executor,
      state_.WhileOwned([this, keys](absl::StatusOr<kv::GetResult> result) {
        if (!result.ok()) return;
        for (size_t i = 0; i < keys.size(); ++i) {
          state_.Release(keys[i].key);
          if (!result->values[i].has_value()) continue;
          state_.queue.Add(QueuedRow(keys[i].key, *result->values[i], result->seq));
        }
        state_.core.wake();
      }));
}

// The rows of a ClaimLoop that wait for their target.

namespace {

constexpr absl::Duration kRewindEvery = absl::Seconds(1);
// How often the rows that wait for their target are checked for their age.
constexpr absl::Duration kBlockedCheckedEvery = absl::Seconds(5);
// A pause ends so long before an event would be too old, as PlanRetry cuts a Retry-After.
constexpr absl::Duration kBeforeTooOld = absl::Seconds(1);

// Bytes in memory: the payload as stored, and the payload to send.
size_t BlockedBytes(const QueuedRow& row) { return 2 * row.value().size() + 1024; }

}  // namespace

void ClaimLoop::Unblock(absl::Time now) {
  // On-time rows go first, directly into the next claim (ClaimUnblocked). If on-time work is due,
  // the other rows return to the queue, which gives them their share.
  const bool shares = state_.queue.HasOnTimeDueBy(state_.core.lead.LatestDueClaimedAt(now));
  for (auto target = blocked_.begin(); target != blocked_.end();) {
    Blocked& blocked = target->second;
    uint64_t room = state_.core.sends.Room(target->first);
    room -= std::min<uint64_t>(room, blocked.on_time_rows());
    for (auto at = blocked.rows.lower_bound(kLaneRetry); shares && at != blocked.rows.end();) {
      const auto segment = at++;
      for (uint64_t n = std::min<uint64_t>(room, segment->second.size()); n > 0; --n)
        Requeue(TakeFirst(blocked, segment));
    }
    target = blocked.rows.empty() ? blocked_.erase(target) : std::next(target);
  }
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (evicted_.empty() || elapsed < last_rewind_ + kRewindEvery) return;
  for (auto target = evicted_.begin(); target != evicted_.end(); ++target) {
    if (blocked_.contains(*target) || state_.core.sends.Room(*target) == 0) continue;
    // This re-reads all lanes. Rows of other slow targets may be evicted again.
    evicted_.erase(target);
    last_rewind_ = elapsed;
    loader_.Rewind();
    return;
  }
}

template <typename Stays>
void ClaimLoop::KeepRows(Blocked& blocked, Stays stays) {
  for (auto& [segment, rows] : blocked.rows) {
    std::deque<QueuedRow> kept;
    for (QueuedRow& row : rows) {
      if (stays(row)) kept.push_back(std::move(row));
    }
    rows = std::move(kept);
  }
  std::erase_if(blocked.rows, [](const auto& segment) { return segment.second.empty(); });
}

QueuedRow ClaimLoop::TakeFirst(Blocked& blocked, Segment segment) {
  QueuedRow row = std::move(segment->second.front());
  segment->second.pop_front();
  if (segment->second.empty()) blocked.rows.erase(segment);
  CountUnblocked(blocked, row);
  return row;
}

uint8_t ClaimLoop::ClaimUnblocked(absl::Time now, uint8_t priority_max) {
  if (blocked_.empty()) return kNothingDue;
  uint8_t next = kNothingDue;
  const absl::Time until = state_.core.lead.LatestDueClaimedAt(now);
  const auto claim = [&](Standing standing, const std::string& target, Blocked& blocked) {
    uint64_t requeued = 0;  // these rows will need room too
    while (HasRoom()) {
      Rank rank = {kNothingDue, absl::InfiniteFuture()};
      Segment first = blocked.rows.end();
      for (auto segment = blocked.rows.begin(); segment != blocked.rows.end(); ++segment) {
        if (StandingOf(segment->first) != standing) continue;
        const Rank its_rank = RankOf(segment->second.front().key(), until);
        if (its_rank >= rank) continue;
        rank = its_rank;
        first = segment;
      }
      if (rank.first > priority_max) {
        next = std::min(next, rank.first);
        return;
      }
      if (first == blocked.rows.end() || RoomOf(target) <= requeued) return;
      QueuedRow row = TakeFirst(blocked, first);
      std::unique_ptr<ResolvedRow> resolved;
      // A retry goes through Consider again, which sees whether it is still allowed.
      if (standing != Standing::kBackground) resolved = TakeResolved(row, now);
      if (resolved != nullptr) {
        const std::string& room_key = state_.core.sends.RoomKey(resolved->entry);
        AddToClaim(now, room_key, std::move(row), std::move(resolved));
      } else {
        Requeue(std::move(row));
        ++requeued;
      }
    }
  };
  for (auto& [target, blocked] : blocked_) claim(Standing::kOnTime, target, blocked);
  // The other rows have their turn once the queue's on-time rows have been taken.
  if (state_.queue.HasOnTimeDueBy(until))
    return priority_max < kNoPriority ? std::min(next, kNoPriority) : next;
  for (const Standing standing : {Standing::kLate, Standing::kBackground}) {
    for (auto& [target, blocked] : blocked_) claim(standing, target, blocked);
  }
  return next;
}

void ClaimLoop::RequeueBlocked(const absl::flat_hash_set<Uid>& schedules) {
  for (auto& [target, blocked] : blocked_) {
    KeepRows(blocked, [&, &blocked = blocked](QueuedRow& row) {
      const std::optional<EventKey> key = DecodeEventKey(row.key());
      if (!key.has_value() || !schedules.contains(key->uid)) return true;
      CountUnblocked(blocked, row);
      Requeue(std::move(row));
      return false;
    });
  }
}

bool ClaimLoop::FailIfTooOld(absl::Time now, const SendLoop::Hold& hold, QueuedRow& row,
                             ResolvedRow& resolved) {
  if (now < HeldRowEnd(resolved, hold.lasted, now)) return false;
  RowEnd end = EndOfHeldRow(resolved, hold.down);
  state_.core.metrics.held_events_failed.Increment(end.entry.event.count());
  ends_.AddRow(std::move(end), std::move(row), std::move(resolved.judged->state));
  return true;
}

void ClaimLoop::CutPause(absl::Time now, const std::string& room_key, const SendLoop::Hold& hold,
                         const ResolvedRow& resolved) {
  const absl::Duration left = HeldRowEnd(resolved, hold.lasted, now) - now;
  state_.core.sends.CutPause(room_key, left - kBeforeTooOld);
}

void ClaimLoop::EndLateBlockedRows(absl::Time now) {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (blocked_.empty() || elapsed < blocked_checked_ + kBlockedCheckedEvery) return;
  blocked_checked_ = elapsed;
  for (auto& [target, blocked] : blocked_) {
    const std::optional<SendLoop::Hold> hold = state_.core.sends.HoldOf(target);
    KeepRows(blocked, [&, &target = target, &blocked = blocked](QueuedRow& row) {
      std::unique_ptr<ResolvedRow> resolved = TakeResolved(row, now);
      if (resolved == nullptr) {
        CountUnblocked(blocked, row);
        Requeue(std::move(row));
      } else if (hold.has_value() && HeldRowEnd(*resolved, hold->lasted, now) <= now) {
        CountUnblocked(blocked, row);
        FailIfTooOld(now, *hold, row, *resolved);
      } else if (RetryIsOver(*resolved, now)) {
        CountUnblocked(blocked, row);
        FailLateRetry(std::move(row), std::move(*resolved));
      } else {
        if (hold.has_value()) CutPause(now, target, *hold, *resolved);
        row.KeepResolved(std::move(resolved));
        return true;
      }
      return false;
    });
  }
}

ClaimLoop::Next ClaimLoop::BlockRow(absl::Time now, const std::string& target, QueuedRow row,
                                    std::unique_ptr<ResolvedRow> resolved) {
  Blocked& blocked = blocked_[target];
  const uint8_t segment = row.segment();
  const auto rows = blocked.rows.find(segment);
  const bool full =
      rows != blocked.rows.end() && rows->second.size() >= state_.core.options.blocked_rows_max;
  if ((full || BlockedBytesFull()) && state_.core.sends.IsSlow(target)) {
    state_.Release(row.key());
    evicted_.insert(target);
    return Next::kContinue;
  }
  row.KeepResolved(std::move(resolved));
  if (full && row.standing() == Standing::kOnTime && loader_.IsLate(row.key(), now)) {
    loader_.RequeueAsLate(std::move(row));
    return Next::kContinue;
  }
  ++blocked_rows_;
  blocked_bytes_ += BlockedBytes(row);
  blocked.bytes += BlockedBytes(row);
  blocked.rows[segment].push_back(std::move(row));
  if (BlockedBytesFull()) EvictRows();
  return full ? Next::kHeldUp : Next::kContinue;
}

void ClaimLoop::CountUnblocked(Blocked& blocked, const QueuedRow& row) {
  TakeFrom<size_t>(blocked_rows_, 1);
  TakeFrom(blocked_bytes_, BlockedBytes(row));
  TakeFrom(blocked.bytes, BlockedBytes(row));
}

void ClaimLoop::EvictRows() {
  for (auto& [target, blocked] : blocked_) {
    if (state_.core.sends.IsSlow(target)) EvictTarget(target, blocked);
  }
  while (BlockedBytesFull()) {
    const auto most = std::max_element(
        blocked_.begin(), blocked_.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    CHECK(most != blocked_.end() && !most->second.rows.empty())
        << blocked_bytes_ << " bytes of no row";
    EvictTarget(most->first, most->second);
  }
}

// The rows are re-read when the target has room.
void ClaimLoop::EvictTarget(const std::string& target, Blocked& blocked) {
  if (blocked.rows.empty()) return;
  KeepRows(blocked, [&](const QueuedRow& row) {
    CountUnblocked(blocked, row);
    state_.Release(row.key());
    return false;
  });
  evicted_.insert(target);
}

namespace {

constexpr uint32_t kKeysAtOnce = 2000;
constexpr absl::Duration kPassEvery = absl::Seconds(1);
constexpr int kPauseFactor = 10;  // times the duration of a pass

}  // namespace

void RetrySweep::Step() {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (stopped_ || noted_.empty() || !sweeping_.empty() || elapsed < next_pass_) return;
  sweeping_ = std::exchange(noted_, {});
  begun_ = elapsed;
  claims_.RequeueBlocked(sweeping_);
  Scan(EventLaneKey(state_.shard, kLaneRetry, absl::InfinitePast()));
}

void RetrySweep::Scan(std::string begin) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kEvents;
  scan.begin = std::move(begin);
  scan.end = EventLaneKey(state_.shard, kLaneRetry + 1, absl::InfinitePast());
  scan.limit = kKeysAtOnce;
  scan.keys_only = true;
  state_.core.client.Scan(std::move(scan), state_.core.executor,
                          state_.WhileOwned([this](absl::StatusOr<kv::ScanResult> keys) {
                            // The store is unreachable: the next pass starts over.
                            if (!keys.ok()) {
                              noted_.insert(sweeping_.begin(), sweeping_.end());
                              return Continue(std::string());
                            }
                            OnKeys(*keys);
                          }));
}

void RetrySweep::OnKeys(const kv::ScanResult& keys) {
  std::vector<kv::Key> rows;
  for (const kv::Entry& entry : keys.entries) {
    const std::optional<EventKey> key = DecodeEventKey(entry.key);
    if (key.has_value() && sweeping_.contains(key->uid))
      rows.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.key});
  }
  std::string next = keys.more ? KeyAfter(keys.entries.back().key) : std::string();
  if (rows.empty()) return Continue(next);
  ReadRows(std::move(rows), std::move(next));
}

void RetrySweep::ReadRows(std::vector<kv::Key> rows, std::string next) {
  state_.core.client.MultiGet(
      rows, state_.core.executor,
      state_.WhileOwned([this, rows, next = std::move(next)](absl::StatusOr<kv::GetResult> result) {
        for (size_t i = 0; result.ok() && !stopped_ && i < rows.size(); ++i) {
          if (!result->values[i].has_value()) continue;
          const std::optional<EventKey> key = DecodeEventKey(rows[i].key);
          CHECK(key.has_value());
          // A row that cannot be judged yet is left to the next pass.
          if (!claims_.EndUnwanted(QueuedRow(rows[i].key, *result->values[i], result->seq)))
            noted_.insert(key->uid);
        }
        state_.core.cache.Fetch();
        state_.core.wake();
        Continue(result.ok() ? next : std::string());
      }));
}

void RetrySweep::Continue(const std::string& next) {
  if (!next.empty() && !stopped_) return Scan(next);
  sweeping_.clear();
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  next_pass_ = elapsed + std::max(kPassEvery, kPauseFactor * (elapsed - begun_));
}

}  // namespace escapement::handler
