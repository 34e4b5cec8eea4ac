#include "services/handler/claims/takeover_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/event_table.h"
#include "services/handler/base/options.h"
#include "services/handler/claims/granted_loop.h"
#include "services/handler/claims/takeover.h"

namespace escapement::handler {
namespace {

// Covers the time from the former owner's lease check to its last byte on the wire. Its lease has a
// margin of its own.
constexpr absl::Duration kMargin = absl::Milliseconds(100);

}  // namespace

void TakeoverLoop::Start(std::function<void()> ready) {
  ready_ = std::move(ready);
  ++scan_;
  ReadMark();
}

void TakeoverLoop::ReadMark() {
  state_.core.client.MultiGet(
      {{.cf = kv::ColumnFamily::kMeta, .key = TakeoverMarkKey(state_.shard)}}, state_.core.executor,
      state_.WhileOwned([this, scan = scan_](absl::StatusOr<kv::GetResult> result) {
        if (scan != scan_) return;
        if (!result.ok()) return ReadMark();
        const std::string former = KeyWriter().U64(state_.lease.epoch - 1).Take();
        Scan(/*marked=*/result->values[0] == former);
      }));
}

void TakeoverLoop::Scan(bool marked) {
  ScanInflight(state_,
               [this, marked, scan = scan_](std::vector<kv::Entry> inflight, kv::CommitSeq seq) {
                 if (scan == scan_) OnScanned(marked, std::move(inflight), seq);
               });
}

void TakeoverLoop::OnScanned(bool marked, std::vector<kv::Entry> inflight, kv::CommitSeq seq) {
  // An owner without a mark has not counted the loss of the owner before it.
  const FormerOwner former = {.end = state_.lease.former_owner_end,
                              .lost = state_.lease.former_owner_lost || !marked,
                              .dead = state_.lease.former_owner_dead,
                              .marked = marked};
  Takeover plan = PlanTakeover(inflight);
  ends_.AddGarbage(std::move(plan.garbage_keys));
  state_.core.metrics.broken_rows.Increment(plan.broken);
  std::vector<std::shared_ptr<Left>> changed;
  for (LeftClaim& claim : plan.claims) {
    if (IsGranted(claim.id)) {
      state_.granted.Add(claim.id);
      if (FromMicros(claim.claim_time_micros) > former.end) {
        granted_.Adopt(std::move(claim), /*seq=*/0);
        continue;
      }
    }
    for (const LeftEntry& entry : claim.entries) {
      if (entry.record.row_stays() && !entry.open.empty() && !IsGranted(claim.id))
        state_.held.Add(entry.record.event_key());
    }
    auto left = std::make_shared<Left>();
    left->claim = std::move(claim);
    if (NoteFormerOwner(former, left->claim)) changed.push_back(left);
    left->not_before = NotBefore(left->claim);
    left_.push_back(std::move(left));
  }
  CommitNotes(std::move(changed));
  granted_.OnScanned(seq);
  ready_();
}

absl::Time TakeoverLoop::NotBefore(const LeftClaim& claim) const {
  const absl::Duration late =
      Perturb(state_.core.runtime, Site::kTakeoverLate) ? 10 * kMargin : absl::ZeroDuration();
  return QuietFrom(claim, kMargin) + late;
}

// Nothing else is done with the claims before this commit is answered, because commits may overtake
// one another.
void TakeoverLoop::CommitNotes(std::vector<std::shared_ptr<Left>> changed) {
  kv::Commit commit;
  commit.fence = {state_.fence};
  kv::Group& group = commit.groups.emplace_back();
  group.mutations.push_back({.cf = kv::ColumnFamily::kMeta,
                             .key = TakeoverMarkKey(state_.shard),
                             .value = KeyWriter().U64(state_.lease.epoch).Take()});
  for (const std::shared_ptr<Left>& left : changed) {
    group.mutations.push_back({.cf = kv::ColumnFamily::kInflight,
                               .key = EncodeClaimTakeoverKey(left->claim.id),
                               .value = left->claim.takeover.SerializeAsString()});
  }
  state_.core.client.CommitAsync(
      std::move(commit), state_.core.executor,
      state_.WhileOwned([this, changed = std::move(changed)](
                            const absl::StatusOr<kv::CommitResult>& result) mutable {
        if (result.ok()) {
          noted_ = true;
          state_.core.wake();
        } else if (absl::IsResourceExhausted(result.status())) {
          // Nothing was applied. Without the notes the lost owner would not be counted.
          state_.core.executor->PostAfter(
              kRetryCommitDelay, state_.WhileOwned([this, changed = std::move(changed)]() mutable {
                CommitNotes(std::move(changed));
              }));
        } else {
          state_.OnRefused();
        }
      }));
}

std::optional<absl::Time> TakeoverLoop::NextDue() const {
  std::optional<absl::Time> next;
  if (!noted_) return next;
  for (const auto& left : left_) {
    if (left->reading || left->announcing) continue;
    if (!next.has_value() || left->not_before < *next) next = left->not_before;
  }
  return next;
}

void TakeoverLoop::Step(absl::Time now) {
  if (left_.empty() || !noted_ || !state_.core.lease_valid(state_.shard)) return;
  std::vector<std::shared_ptr<Left>> unannounced;
  for (auto at = left_.begin(); at != left_.end();) {
    Left& left = **at;
    bool adopted = false;
    if (left.not_before <= now && !left.reading) {
      if (!left.asked) AskForRows(left, now);
      if (!left.unread.empty()) ReadRows(*at);
      if (left.ready() && MustAnnounce(left)) {
        unannounced.push_back(*at);
      } else if (left.ready()) {
        adopted = Adopt(left, now);
      }
    }
    at = adopted ? left_.erase(at) : std::next(at);
  }
  if (!unannounced.empty()) Announce(std::move(unannounced));
  state_.core.cache.Fetch();
}

// The next owner must wait for the attempts that are about to begin.
void TakeoverLoop::Announce(std::vector<std::shared_ptr<Left>> lefts) {
  kv::Commit commit;
  commit.fence = {state_.fence};
  kv::Group& group = commit.groups.emplace_back();
  for (const std::shared_ptr<Left>& left : lefts) {
    left->announcing = true;
    left->claim.takeover.clear_quiet_from_micros();
    group.mutations.push_back({.cf = kv::ColumnFamily::kInflight,
                               .key = EncodeClaimTakeoverKey(left->claim.id),
                               .value = left->claim.takeover.SerializeAsString()});
  }
  state_.core.client.CommitAsync(
      std::move(commit), state_.core.executor,
      state_.WhileOwned(
          [this, lefts = std::move(lefts)](const absl::StatusOr<kv::CommitResult>& result) {
            // If the store had no room, a later step tries again. Otherwise the lease or the
            // session is lost, and the shard is about to be dropped.
            for (const std::shared_ptr<Left>& left : lefts) {
              left->announcing = false;
              left->announced = result.ok();
            }
            if (result.ok()) state_.core.wake();
          }));
}

// Only the row of a one-off event has its payload. The states of schedules are read again, because
// no commit with a condition on them precedes the sending.
void TakeoverLoop::AskForRows(Left& left, absl::Time now) {
  left.asked = true;
  left.asked_at = now;
  if (IsGranted(left.claim.id)) return;
  for (const LeftEntry& entry : left.claim.entries) {
    if (entry.open.empty()) continue;
    if (entry.record.row_stays()) {
      left.unread.push_back({.cf = kv::ColumnFamily::kEvents, .key = entry.record.event_key()});
    } else if (const auto key = DecodeEventKey(entry.record.event_key()); key.has_value()) {
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
  for (size_t i = 0; i < left.claim.entries.size(); ++i) {
    const LeftEntry& entry = left.claim.entries[i];
    ResolvedRow row;
    if (entry.open.empty()) {
    } else if (!entry.record.row_stays()) {
      row =
          std::move(*ResolveRow(state_.core.cache, entry.record.event_key(), entry.record.event()));
    } else if (const auto found = left.rows.find(entry.record.event_key());
               found != left.rows.end()) {
      row = std::move(*ResolveRow(state_.core.cache,
                                  QueuedRow(entry.record.event_key(), found->second, /*seq=*/0)));
    }
    known = known && !row.Is(RowJudgement::Action::kFetch) && CompleteIfQuarantined(left, i, row);
    rows.push_back(std::move(row));
  }
  if (!known) return std::nullopt;
  return rows;
}

bool TakeoverLoop::CompleteIfQuarantined(const Left& left, size_t i, ResolvedRow& row) {
  const LeftEntry& entry = left.claim.entries[i];
  if (!row.Is(RowJudgement::Action::kPark) && !row.Is(RowJudgement::Action::kMove)) return true;
  if (std::none_of(entry.open.begin(), entry.open.end(), [&](const IndexSlice& slice) {
        return left.claim.IsQuarantined(static_cast<uint32_t>(i), slice);
      }))
    return true;
  const auto definition =
      state_.core.cache.Definition(row.entry.key.uid, row.judged->state->record->version());
  if (definition == nullptr) return false;
  if (definition->record == nullptr) return true;  // deleted: it is not sent again
  row.entry.context = ContextOfScheduled(definition, row.entry);
  row.entry.claimed_version = definition->record->version();
  return true;
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
  claim->lost_claims = left.claim.takeover.lost_claims();
  claim->has_takeover_row = left.claim.has_takeover_row;
  for (size_t i = 0; i < rows->size(); ++i) {
    ClaimedEntry& entry = (*rows)[i].entry;
    const auto& record = left.claim.entries[i].record;
    entry.row_stays = record.row_stays();
    if (entry.event_key.empty()) entry.SetEventKey(record.event_key());
    claim->entries.push_back(std::move(entry));
    for (const IndexSlice& slice : left.claim.entries[i].open) claim->open += slice.count;
  }
  state_.AddClaim(claim);
  for (uint32_t i = 0; i < rows->size(); ++i) {
    const ResolvedRow& row = (*rows)[i];
    const bool complete = claim->entries[i].context != nullptr;
    for (const IndexSlice& slice : left.claim.entries[i].open) {
      for (const IndexSlice& part : complete ? Quarantine(left.claim, claim, i, slice, now)
                                             : std::vector<IndexSlice>{slice}) {
        row.Is(RowJudgement::Action::kSend) ? SendAgain(claim, i, part, now)
                                            : EndUnsent(claim, i, part, row, now);
      }
    }
  }
  return true;
}

void TakeoverLoop::EndUnsent(const std::shared_ptr<Claim>& claim, uint32_t entry, IndexSlice slice,
                             const ResolvedRow& row, absl::Time now) {
  // Without a row only the claim's end is left to write. Events that must not be sent any more
  // become a row again, which is then parked or skipped under the condition of its schedule's
  // state.
  EndKind kind = EndKind::kGone;
  if (row.judged.has_value())
    kind = claim->entries[entry].one_off() ? EndKind::kSkipped : EndKind::kReturn;
  ends_.Add({.claim = claim,
             .entry = entry,
             .kind = kind,
             .first = slice.first,
             .count = slice.count,
             .attempts = claim->entries[entry].event.attempts(),
             .complete_micros = ToMicros(now),
             .reason = row.judged.has_value() ? row.judged->reason : ""});
}

std::vector<IndexSlice> TakeoverLoop::Quarantine(const LeftClaim& left,
                                                 const std::shared_ptr<Claim>& claim,
                                                 uint32_t entry, IndexSlice slice, absl::Time now) {
  if (!left.IsQuarantined(entry, slice)) return {slice};
  // As for any event that is sent alone: the claim's record names it until its end is durable.
  const uint64_t index = left.takeover.trial().index();
  claim->trial = {.entry = entry, .index = index};
  state_.core.metrics.quarantined.Increment();
  ends_.Add({.claim = claim,
             .entry = entry,
             .kind = EndKind::kFailed,
             .first = index,
             .attempts = claim->entries[entry].event.attempts() + 1,
             .complete_micros = ToMicros(now),
             .reason = kQuarantined});
  return Subtract({slice}, {{.first = index, .count = 1}});
}

void TakeoverLoop::SendAgain(const std::shared_ptr<Claim>& claim, uint32_t entry, IndexSlice slice,
                             absl::Time now) {
  state_.core.metrics.takeovers.Increment(slice.count);
  const ClaimedEntry& claimed = claim->entries[entry];
  if (claim->IsSuspect(claimed)) return suspects_.Add(claim, entry, slice.first, slice.count);
  state_.core.sends.Reserve(claimed.room_key(), slice.count);
  // A handler that was restarted in place finds claims that were made ahead of their due time.
  state_.core.sends.Add(claim, entry, slice.first, slice.count,
                        std::max(now, claimed.key.due_time));
}

bool TakeoverLoop::ResendGranted(Left& left, absl::Time now) {
  const std::shared_ptr<Claim> claim = MakeGrantedClaim(left.claim);
  if (claim == nullptr) {
    state_.core.metrics.broken_rows.Increment();
    return true;
  }
  state_.AddClaim(claim);
  for (GrantedPiece piece : OpenPieces(claim, left.claim)) {
    const uint32_t lost_claims =
        std::min(piece.claimed().event.lost_claims() + left.claim.takeover.lost_claims(),
                 kLostClaimsOfSuspect);
    for (const IndexSlice& part :
         Quarantine(left.claim, claim, piece.entry, {piece.first, piece.count}, now)) {
      state_.core.metrics.takeovers.Increment(part.count);
      piece.first = part.first;
      piece.count = part.count;
      Outcome outcome = ReturnOutcome(piece, now, /*unreachable=*/false);
      outcome.kind = EndKind::kResend;
      outcome.lost_claims = lost_claims;
      ends_.Add(std::move(outcome));
    }
  }
  return true;
}

}  // namespace escapement::handler
