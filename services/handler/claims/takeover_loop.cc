#include "services/handler/claims/takeover_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/micros.h"
#include "common/runtime/perturb.h"
#include "common/storage/event_table.h"
#include "services/handler/claims/inflight_scan.h"
#include "services/handler/granted/granted_entry.h"

namespace escapement::handler {
namespace {

// Covers the time from the former owner's lease check to its last byte on the wire. Its lease has a
// margin of its own.
constexpr absl::Duration kMargin = absl::Milliseconds(100);
// A row may have 256 KiB of payload, and an answer holds kv::kMultiGetBytesMax.
constexpr size_t kPayloadsAtOnce = 100;

}  // namespace

void TakeoverLoop::Start(std::function<void()> ready) {
  ready_ = std::move(ready);
  ScanInflight(state_, [this, scan = ++scan_](std::vector<kv::Entry> inflight, kv::CommitSeq seq) {
    if (scan == scan_) OnScanned(std::move(inflight), seq);
  });
}

void TakeoverLoop::OnScanned(std::vector<kv::Entry> inflight, kv::CommitSeq seq) {
  Takeover plan = PlanTakeover(inflight);
  ends_.AddGarbage(std::move(plan.garbage_keys));
  state_.core.metrics.broken_rows.Increment(plan.broken);
  for (LeftClaim& claim : plan.claims) {
    if (IsGranted(claim.id)) {
      state_.granted.Add(claim.id);
      if (FromMicros(claim.claim_time_micros) > state_.lease.former_owner_end) {
        granted_.Adopt(std::move(claim), /*seq=*/0);
        continue;
      }
    }
    for (const LeftEntry& entry : claim.entries) {
      if (entry.record.row_stays() && !entry.open.empty())
        state_.held.insert(entry.record.event_key());
    }
    auto left = std::make_shared<Left>();
    left->not_before =
        state_.lease.former_owner_end + absl::Microseconds(claim.timeout_max_micros) + kMargin;
    if (Perturb(state_.core.runtime, Site::kTakeoverLate)) left->not_before += 10 * kMargin;
    left->claim = std::move(claim);
    left_.push_back(std::move(left));
  }
  granted_.OnScanned(seq);
  ready_();
}

std::optional<absl::Time> TakeoverLoop::NextDue() const {
  std::optional<absl::Time> next;
  for (const auto& left : left_) {
    if (!left->reading && (!next.has_value() || left->not_before < *next)) next = left->not_before;
  }
  return next;
}

void TakeoverLoop::Step(absl::Time now) {
  if (left_.empty() || !state_.core.lease_valid(state_.shard)) return;
  for (auto left = left_.begin(); left != left_.end();) {
    const bool due = (*left)->not_before <= now && !(*left)->reading;
    if (due && !(*left)->asked) AskForRows(**left, now);
    if (due && !(*left)->unread.empty()) ReadRows(*left);
    left = due && (*left)->read() && Adopt(**left, now) ? left_.erase(left) : std::next(left);
  }
  state_.core.cache.Fetch();
}

// Only the row of a one-off event has its payload. The states of schedules are read again, because
// no commit with a condition on them precedes the sending.
void TakeoverLoop::AskForRows(Left& left, absl::Time now) {
  left.asked = true;
  left.asked_at = now;
  for (const LeftEntry& entry : left.claim.entries) {
    if (entry.open.empty()) continue;
    if (entry.record.row_stays()) {
      left.unread.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.record.event_key()});
    } else if (const auto key = DecodeEventKey(entry.record.event_key());
               key.has_value() && !IsGranted(left.claim.id)) {
      state_.core.cache.ForgetState(key->uid);
    }
  }
}

void TakeoverLoop::ReadRows(const std::shared_ptr<Left>& left) {
  std::vector<kv::Key>& unread = left->unread;
  const size_t count = std::min(unread.size(), kPayloadsAtOnce);
  std::vector<kv::Key> keys(unread.end() - static_cast<ptrdiff_t>(count), unread.end());
  CHECK(!std::exchange(left->reading, true));
  state_.core.client.MultiGet(
      keys, state_.core.executor,
      state_.WhileOwned([this, left, keys](absl::StatusOr<kv::GetResult> result) {
        left->reading = false;
        if (result.ok()) {
          CHECK_GE(left->unread.size(), keys.size());
          left->unread.resize(left->unread.size() - keys.size());
        }
        for (size_t i = 0; result.ok() && i < keys.size(); ++i) {
          if (result->values[i].has_value())
            left->rows[keys[i].key] = *std::move(result->values[i]);
        }
        state_.core.wake();
      }));
}

std::optional<std::vector<ResolvedRow>> TakeoverLoop::ResolveAll(Left& left) {
  std::vector<ResolvedRow> rows;
  bool known = true;
  for (const LeftEntry& entry : left.claim.entries) {
    ResolvedRow row;
    if (entry.open.empty()) {
    } else if (!entry.record.row_stays()) {
      row =
          std::move(*ResolveRow(state_.core.cache, entry.record.event_key(), entry.record.event()));
    } else if (const auto found = left.rows.find(entry.record.event_key());
               found != left.rows.end()) {
      row = std::move(*ResolveRow(state_.core.cache, entry.record.event_key(),
                                  absl::string_view(found->second)));
    }
    known = known && !row.Is(RowJudgement::Action::kFetch);
    rows.push_back(std::move(row));
  }
  if (!known) return std::nullopt;
  return rows;
}

bool TakeoverLoop::Adopt(Left& left, absl::Time now) {
  if (IsGranted(left.claim.id)) return ResendGranted(left, now);
  std::optional<std::vector<ResolvedRow>> rows = ResolveAll(left);
  if (!rows.has_value()) return false;
  auto claim = std::make_shared<Claim>();
  claim->id = left.claim.id;
  claim->ends_written = left.claim.ends_written;
  claim->claim_time_micros = left.claim.claim_time_micros;
  claim->judged = left.asked_at;
  claim->timeout_max = absl::Microseconds(left.claim.timeout_max_micros);
  for (size_t i = 0; i < rows->size(); ++i) {
    ClaimedEntry& entry = (*rows)[i].entry;
    const auto& record = left.claim.entries[i].record;
    entry.row_stays = record.row_stays();
    if (entry.event_key.empty()) entry.event_key = record.event_key();
    claim->entries.push_back(std::move(entry));
    for (const IndexSlice& slice : left.claim.entries[i].open) claim->open += slice.count;
  }
  state_.AddClaim(claim);
  for (uint32_t i = 0; i < rows->size(); ++i) {
    const ResolvedRow& row = (*rows)[i];
    for (const IndexSlice& slice : left.claim.entries[i].open) {
      if (row.Is(RowJudgement::Action::kSend)) {
        state_.core.metrics.takeovers.Increment(slice.count);
        state_.core.sends.Reserve(claim->entries[i].context->target_key, slice.count);
        state_.core.sends.Add(claim, i, slice.first, slice.count, now);
        continue;
      }
      // Without a row only the claim's end is left to write. Events that must not be sent any more
      // become a row again, which is then parked or skipped under the condition of its schedule's
      // state.
      EndKind kind = EndKind::kGone;
      if (row.judged.has_value())
        kind = claim->entries[i].one_off() ? EndKind::kSkipped : EndKind::kReturn;
      ends_.Add({.claim = claim,
                 .entry = i,
                 .kind = kind,
                 .first = slice.first,
                 .count = slice.count,
                 .attempts = claim->entries[i].event.attempts(),
                 .complete_micros = ToMicros(now),
                 .reason = row.judged.has_value() ? row.judged->reason : ""});
    }
  }
  return true;
}

bool TakeoverLoop::ResendGranted(Left& left, absl::Time now) {
  const std::shared_ptr<Claim> claim = MakeGrantedClaim(left.claim);
  if (claim == nullptr) {
    state_.core.metrics.broken_rows.Increment();
    return true;
  }
  state_.AddClaim(claim);
  for (const GrantedPiece& piece : OpenPieces(claim, left.claim)) {
    state_.core.metrics.takeovers.Increment(piece.count);
    Outcome outcome = ReturnOutcome(piece, now, /*unreachable=*/false);
    outcome.kind = EndKind::kResend;
    ends_.Add(std::move(outcome));
  }
  return true;
}

}  // namespace escapement::handler
