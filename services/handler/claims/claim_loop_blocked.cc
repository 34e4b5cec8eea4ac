// The rows of a ClaimLoop that wait for their target.

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/records/retry_end.h"
#include "services/handler/claims/claim_loop.h"
#include "services/handler/claims/held_rows.h"
#include "services/handler/sending/claim_lead.h"

namespace escapement::handler {
namespace {

constexpr absl::Duration kRewindEvery = absl::Seconds(1);
// How often the rows that wait for a target that is down are checked for their age.
constexpr absl::Duration kHeldCheckedEvery = absl::Seconds(5);

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
        AddToClaim(now, std::move(row), std::move(resolved), batch);
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

bool ClaimLoop::FailIfTooOld(absl::Time now, std::optional<absl::Duration> down_for, QueuedRow& row,
                             ResolvedRow& resolved) {
  if (!down_for.has_value() || !IsHeldTooLong(resolved, *down_for, now)) return false;
  RowEnd end = EndOfHeldRow(resolved);
  state_.core.metrics.held_events_failed.Increment(end.entry.event.count());
  ends_.AddRow(std::move(end), std::move(row), std::move(resolved.judged->state));
  return true;
}

// Also fails retries that have waited until their schedule's next occurrence.
void ClaimLoop::FailOldHeldRows(absl::Time now) {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (blocked_.empty() || elapsed < held_checked_ + kHeldCheckedEvery) return;
  held_checked_ = elapsed;
  for (auto& [target, blocked] : blocked_) {
    const std::optional<absl::Duration> down_for = state_.core.sends.DownFor(target);
    if (!down_for.has_value()) continue;
    for (std::deque<QueuedRow>* rows : {&blocked.on_time, &blocked.background}) {
      std::deque<QueuedRow> kept;
      for (QueuedRow& row : *rows) {
        std::unique_ptr<ResolvedRow> resolved = TakeResolved(row);
        if (resolved == nullptr) {
          CountUnblocked(blocked, row);
          Requeue(std::move(row));
        } else if (IsHeldTooLong(*resolved, *down_for, now)) {
          CountUnblocked(blocked, row);
          FailIfTooOld(now, down_for, row, *resolved);
        } else if (RetryIsOver(resolved->entry.event, *resolved->entry.context->definition,
                               resolved->entry.context->timetable.get(),
                               resolved->judged->state.get(), now)) {
          CountUnblocked(blocked, row);
          FailLateRetry(std::move(row), std::move(*resolved));
        } else {
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
  if (full && row.standing() == Standing::kOnTime && loader_.IsOverdue(row.key(), now)) {
    loader_.RequeueAsOverdue(std::move(row));
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

}  // namespace escapement::handler
