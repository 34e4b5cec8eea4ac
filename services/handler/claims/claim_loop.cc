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

// Bytes of the rows of one claim. After a takeover, or if one row has changed, all are read again.
constexpr size_t kClaimRowBytesMax = 16 << 20;
constexpr size_t kClaimBytesMax =
    2 << 20;  // bytes of one ClaimRecord; a value may have twice as many
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

}  // namespace

std::unique_ptr<ResolvedRow> ClaimLoop::TakeResolved(QueuedRow& row) const {
  std::unique_ptr<ResolvedRow> resolved = row.TakeResolved();
  if (resolved != nullptr && resolved->judged->state != nullptr &&
      resolved->judged->state != state_.core.cache.StateIfKnown(resolved->entry.key.uid))
    resolved.reset();
  return resolved;
}

void ClaimLoop::Requeue(QueuedRow row) {
  state_.Release(row.key());
  state_.queue.Add(std::move(row));
}

void ClaimLoop::Step(absl::Time now) {
  if (stopped_ || !state_.core.lease_valid(state_.shard)) return;
  if (state_.core.runtime.clock().Elapsed() < not_before_) return;
  FailOldHeldRows(now);
  Unblock(now);
  while (MakeClaim(now)) {
  }
  state_.core.cache.Fetch();
}

bool ClaimLoop::MayClaim() const {
  const size_t commits_max =
      Perturb(state_.core.runtime, Site::kHandlerOneClaimOutstanding) ? 1 : kClaimsOutstandingMax;
  return commits_ < commits_max && !state_.core.sends.full() &&
         awaiting_records_.size() < kAwaitingRecordsMax;
}

DueQueue::Takeable ClaimLoop::TakeableNow(absl::Time now) const {
  const HandlerOptions& options = state_.core.options;
  DueQueue::Takeable may;
  for (const auto& [target, rows] : blocked_) {
    const bool on_time = rows.on_time.size() >= options.blocked_rows_max;
    const bool background = rows.background.size() >= options.blocked_rows_max;
    // Rows of a slow target hold up no other rows: they are evicted instead.
    if ((!on_time && !background) || state_.core.sends.IsSlow(target)) continue;
    if (on_time && !loader_.IsLate(rows.on_time.back().key(), now)) may.on_time = false;
    if (background) may.background = false;
  }
  return may;
}

void ClaimLoop::OnFetched() {
  for (QueuedRow& row : awaiting_records_) Requeue(std::move(row));
  awaiting_records_.clear();
}

bool ClaimLoop::HasRoom(const ClaimBatch& batch, size_t rows_max) const {
  return batch.rows() < rows_max && batch.room() > 0 && batch.bytes() < kClaimBytesMax &&
         batch.row_bytes() < kClaimRowBytesMax && !state_.core.sends.full();
}

bool ClaimLoop::MakeClaim(absl::Time now) {
  if (!MayClaim()) return false;
  auto claim = std::make_shared<Claim>();
  claim->id = {.shard = state_.shard, .epoch = state_.lease.epoch, .number = last_number_ + 1};
  const size_t rows_max =
      Perturb(state_.core.runtime, Site::kHandlerClaimOfOneRow) ? 1 : kClaimRowsMax;
  const uint64_t events_max =
      Perturb(state_.core.runtime, Site::kHandlerClaimOfOneEvent) ? 1 : kClaimEventsMax;
  ClaimBatch batch(std::move(claim), events_max, rows_of_last_claim_);
  ClaimUnblocked(now, batch, rows_max);
  if (BlockedBytesFull()) EvictRows();
  const absl::Time until = state_.core.lead.LatestDueClaimedAt(now);
  for (DueQueue::Takeable may = TakeableNow(now); may.any() && HasRoom(batch, rows_max);) {
    std::optional<QueuedRow> row = state_.queue.Take(until, may);
    if (!row.has_value()) break;
    // A late answer of the store may have queued a row that is being claimed already.
    if (!state_.held.insert(std::string(row->key())).second) continue;
    const Standing standing = row->standing();
    const Next next = Consider(now, *std::move(row), batch);
    if (next == Next::kHeldUp)
      (standing == Standing::kOnTime ? may.on_time : may.background) = false;
    if (next == Next::kStop) break;
  }
  for (QueuedRow& row : for_next_claim_) Requeue(std::move(row));
  for_next_claim_.clear();
  if (batch.rows() == 0) return false;
  ++last_number_;
  rows_of_last_claim_ = batch.rows();
  Commit(now, std::move(batch));
  return true;
}

ClaimLoop::Next ClaimLoop::Consider(absl::Time now, QueuedRow row, ClaimBatch& batch) {
  std::unique_ptr<ResolvedRow> judged = TakeResolved(row);
  if (judged == nullptr) judged = ResolveRow(state_.core.cache, row.key(), row.value());
  ResolvedRow& resolved = *judged;
  if (!resolved.judged.has_value()) {
    // The row stays in the store, and its key stays held: nothing can be done with it.
    state_.core.metrics.broken_rows.Increment();
    return Next::kContinue;
  }
  const absl::Time ends_at = SupersededEndsAt(resolved.entry.event);
  if (resolved.judged->superseded() && now < ends_at &&
      superseded_waiting_ < kSupersededWaitingMax) {
    RequeueAfter(ends_at - now, std::move(row));
    return Next::kContinue;
  }
  switch (resolved.judged->action) {
    case RowJudgement::Action::kFetch:
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
  if (RetryIsOver(resolved.entry.event, *resolved.entry.context->definition,
                  resolved.entry.context->timetable.get(), resolved.judged->state.get(), now)) {
    FailLateRetry(std::move(row), std::move(resolved));
    return Next::kContinue;
  }
  const std::string& room_key = state_.core.sends.RoomKey(resolved.entry);
  if (const auto hold = state_.core.sends.HoldOf(room_key); hold.has_value()) {
    if (FailIfTooOld(now, *hold, row, resolved)) return Next::kContinue;
    CutPause(now, room_key, *hold, resolved);
  }
  return AddToClaim(now, room_key, std::move(row), std::move(judged), batch);
}

void ClaimLoop::EndUnclaimed(absl::Time now, QueuedRow row, ResolvedRow&& resolved) {
  RowJudgement& judged = *resolved.judged;
  const EndKind kind = EndKindOf(judged);
  std::vector<kv::Mutation> moved;
  if (kind == EndKind::kMove) {
    const EventKey& key = resolved.entry.key;
    AddMovedRow(SourceOf(*judged.definition->record), resolved.entry.event, key.occurrence,
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
  std::unique_ptr<ResolvedRow> resolved = ResolveRow(state_.core.cache, row.key(), row.value());
  if (resolved->Is(RowJudgement::Action::kFetch)) return false;
  if (!resolved->Is(RowJudgement::Action::kSkip) || resolved->judged->superseded()) return true;
  state_.queue.Remove(row.key());
  CHECK(state_.held.insert(std::string(row.key())).second);
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
  std::string reason = PastNextOccurrence(resolved.entry.event.last_error());
  ends_.AddRow({.entry = std::move(resolved.entry),
                .payload = std::move(resolved.payload),
                .kind = EndKind::kFailed,
                .reason = std::move(reason)},
               std::move(row), std::move(resolved.judged->state));
}

ClaimLoop::Next ClaimLoop::AddToClaim(absl::Time now, const std::string& room_key, QueuedRow row,
                                      std::unique_ptr<ResolvedRow> resolved, ClaimBatch& batch) {
  ClaimedEntry& entry = resolved->entry;
  const uint64_t room = state_.core.sends.Room(room_key);
  if (room == 0) return BlockRow(now, room_key, std::move(row), std::move(resolved));
  if (!batch.Fits(entry.context->timeout)) {
    row.KeepResolved(std::move(resolved));
    for_next_claim_.push_back(std::move(row));
    return for_next_claim_.size() < kClaimRowsMax ? Next::kContinue : Next::kStop;
  }
  const uint64_t count = std::min({entry.event.count(), room, batch.room()});
  state_.core.sends.Reserve(room_key, count);
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
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.event_key});
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
// How often the rows that wait for a target that takes none are checked for their age.
constexpr absl::Duration kHeldCheckedEvery = absl::Seconds(5);
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
    std::deque<QueuedRow>& rows = target->second.background;
    uint64_t room = state_.core.sends.Room(target->first);
    room -= std::min<uint64_t>(room, target->second.on_time.size());
    for (; shares && room > 0 && !rows.empty(); --room) {
      CountUnblocked(target->second, rows.front());
      Requeue(std::move(rows.front()));
      rows.pop_front();
    }
    target = target->second.empty() ? blocked_.erase(target) : std::next(target);
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

void ClaimLoop::ClaimUnblocked(absl::Time now, ClaimBatch& batch, size_t rows_max) {
  const auto take = [&](const std::string& target, Blocked& blocked, std::deque<QueuedRow>& rows) {
    uint64_t requeued = 0;  // these rows will need room too
    while (!rows.empty() && state_.core.sends.Room(target) > requeued && HasRoom(batch, rows_max)) {
      QueuedRow row = std::move(rows.front());
      rows.pop_front();
      CountUnblocked(blocked, row);
      std::unique_ptr<ResolvedRow> resolved;
      // A retry goes through Consider again, which sees whether it is still allowed.
      if (row.standing() != Standing::kBackground) resolved = TakeResolved(row);
      if (resolved != nullptr) {
        const std::string& room_key = state_.core.sends.RoomKey(resolved->entry);
        AddToClaim(now, room_key, std::move(row), std::move(resolved), batch);
      } else {
        Requeue(std::move(row));
        ++requeued;
      }
    }
  };
  for (auto& [target, blocked] : blocked_) take(target, blocked, blocked.on_time);
  if (state_.queue.HasOnTimeDueBy(state_.core.lead.LatestDueClaimedAt(now))) return;
  for (auto& [target, blocked] : blocked_) take(target, blocked, blocked.background);
}

void ClaimLoop::RequeueBlocked(const absl::flat_hash_set<Uid>& schedules) {
  for (auto& [target, blocked] : blocked_) {
    for (std::deque<QueuedRow>* rows : {&blocked.on_time, &blocked.background}) {
      std::deque<QueuedRow> kept;
      for (QueuedRow& row : *rows) {
        const std::optional<EventKey> key = DecodeEventKey(row.key());
        if (!key.has_value() || !schedules.contains(key->uid)) {
          kept.push_back(std::move(row));
          continue;
        }
        CountUnblocked(blocked, row);
        Requeue(std::move(row));
      }
      *rows = std::move(kept);
    }
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

// Also fails retries that have waited until their schedule's next occurrence.
void ClaimLoop::FailOldHeldRows(absl::Time now) {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (blocked_.empty() || elapsed < held_checked_ + kHeldCheckedEvery) return;
  held_checked_ = elapsed;
  for (auto& [target, blocked] : blocked_) {
    const std::optional<SendLoop::Hold> hold = state_.core.sends.HoldOf(target);
    if (!hold.has_value()) continue;
    for (std::deque<QueuedRow>* rows : {&blocked.on_time, &blocked.background}) {
      std::deque<QueuedRow> kept;
      for (QueuedRow& row : *rows) {
        std::unique_ptr<ResolvedRow> resolved = TakeResolved(row);
        if (resolved == nullptr) {
          CountUnblocked(blocked, row);
          Requeue(std::move(row));
        } else if (HeldRowEnd(*resolved, hold->lasted, now) <= now) {
          CountUnblocked(blocked, row);
          FailIfTooOld(now, *hold, row, *resolved);
        } else if (RetryIsOver(resolved->entry.event, *resolved->entry.context->definition,
                               resolved->entry.context->timetable.get(),
                               resolved->judged->state.get(), now)) {
          CountUnblocked(blocked, row);
          FailLateRetry(std::move(row), std::move(*resolved));
        } else {
          CutPause(now, target, *hold, *resolved);
          row.KeepResolved(std::move(resolved));
          kept.push_back(std::move(row));
        }
      }
      *rows = std::move(kept);
    }
  }
}

ClaimLoop::Next ClaimLoop::BlockRow(absl::Time now, const std::string& target, QueuedRow row,
                                    std::unique_ptr<ResolvedRow> resolved) {
  Blocked& blocked = blocked_[target];
  std::deque<QueuedRow>& rows = blocked.Of(row.standing());
  const bool full = rows.size() >= state_.core.options.blocked_rows_max;
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
  rows.push_back(std::move(row));
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
    CHECK(most != blocked_.end() && !most->second.empty()) << blocked_bytes_ << " bytes of no row";
    EvictTarget(most->first, most->second);
  }
}

// The rows are re-read when the target has room.
void ClaimLoop::EvictTarget(const std::string& target, Blocked& blocked) {
  if (blocked.empty()) return;
  for (std::deque<QueuedRow>* rows : {&blocked.background, &blocked.on_time}) {
    for (const QueuedRow& row : *rows) {
      CountUnblocked(blocked, row);
      state_.Release(row.key());
    }
    rows->clear();
  }
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
