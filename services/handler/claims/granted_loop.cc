#include "services/handler/claims/granted_loop.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"
#include "services/handler/claims/takeover.h"
#include "services/handler/shard/row_resolver.h"

namespace escapement::handler {

namespace {

// The key of the events: of a schedule's from their row in `waiting`, of a one-off event its row in
// `events`.
std::optional<EventKey> KeyOf(const storage::v1::ClaimRecord::Entry& record, uint16_t shard) {
  if (record.row_stays()) return DecodeEventKey(record.event_key());
  std::optional<WaitingKey> key = DecodeWaitingKey(record.event_key());
  if (!key.has_value() || record.grant().policy_shard() != key->policy_shard) return std::nullopt;
  return EventKey{.shard = shard,
                  .due_time = key->due_time,
                  .uid = key->uid,
                  .occurrence = std::move(key->occurrence),
                  .first = key->first};
}

bool MakeEntry(storage::v1::ClaimRecord::Entry& record, uint16_t shard, ClaimedEntry& entry) {
  const storage::v1::GrantRef& grant = record.grant();
  std::optional<EventKey> key = KeyOf(record, shard);
  if (!key.has_value() || !record.has_grant() || grant.policy_uid().size() != Uid::kBytes)
    return false;
  entry.key = *std::move(key);
  entry.grant = std::make_unique<const EntryGrant>(
      EntryGrant{.id = {.policy_shard = static_cast<uint16_t>(grant.policy_shard()),
                        .policy = Uid::FromBytes(grant.policy_uid()),
                        .epoch = grant.epoch(),
                        .number = grant.number()},
                 .send_before = FromMicros(grant.send_before_micros()),
                 .on_release = record.event().throttle().on_release()});
  entry.row_stays = record.row_stays();
  entry.SetEventKey(std::move(*record.mutable_event_key()));
  entry.event = EventRow(std::move(*record.mutable_event()));
  entry.claimed_version = record.claimed_version();
  return true;
}

}  // namespace

std::shared_ptr<Claim> MakeGrantedClaim(LeftClaim& left) {
  auto claim = std::make_shared<Claim>();
  claim->id = left.id;
  claim->ends_written = left.ends_written;
  claim->has_takeover_row = left.has_takeover_row;
  claim->claim_time_micros = left.claim_time_micros;
  claim->judged = FromMicros(left.claim_time_micros);
  claim->timeout_max = absl::Microseconds(left.timeout_max_micros);
  claim->entries.resize(left.entries.size());
  for (size_t i = 0; i < left.entries.size(); ++i) {
    if (!MakeEntry(left.entries[i].record, left.id.shard, claim->entries[i])) return nullptr;
    for (const IndexSlice& slice : left.entries[i].open) claim->open += slice.count;
  }
  return claim;
}

std::vector<GrantedPiece> OpenPieces(const std::shared_ptr<Claim>& claim, const LeftClaim& left) {
  std::vector<GrantedPiece> pieces;
  for (uint32_t i = 0; i < left.entries.size(); ++i) {
    for (const IndexSlice& slice : left.entries[i].open)
      pieces.push_back({.claim = claim, .entry = i, .first = slice.first, .count = slice.count});
  }
  return pieces;
}

Outcome ReturnOutcome(const GrantedPiece& piece, absl::Time now, bool unreachable) {
  return {.claim = piece.claim,
          .entry = piece.entry,
          .kind = EndKind::kReturn,
          .first = piece.first,
          .count = piece.count,
          .attempts = piece.claimed().event.attempts(),
          .complete_micros = ToMicros(now),
          .unreachable = unreachable};
}

namespace {

constexpr uint64_t kEventsMax = 1000;
constexpr char kDownTooLong[] = "not sent: the target was down for longer than max_age";
constexpr char kPausedTooLong[] = "not sent: the target asked for pauses for longer than max_age";

}  // namespace

absl::Time HeldRowEnd(const ResolvedRow& row, absl::Duration held_for, absl::Time now) {
  const storage::v1::RetryRecord& retry =
      CheckNotNull(row.entry.context)->definition->delivery().retry();
  const absl::Time held_since = std::max(row.entry.key.due_time, now - held_for);
  return TriedSince(row.entry.event, held_since) + absl::Microseconds(retry.max_age_micros());
}

RowEnd EndOfHeldRow(ResolvedRow& row, bool down) {
  const char* const too_long = down ? kDownTooLong : kPausedTooLong;
  storage::v1::EventRecord event = row.entry.event.MakeRecord();
  const std::string& last_error = event.last_error();
  RowEnd end{.payload = std::move(row.payload), .kind = EndKind::kFailed};
  end.reason = last_error.empty() ? too_long : absl::StrCat(last_error, "; ", too_long);
  end.entry = std::move(row.entry);
  const uint64_t count = std::min(event.count(), kEventsMax);
  end.rest = event.count() - count;
  event.set_count(count);
  end.entry.event = EventRow(std::move(event));
  return end;
}

using kv::ColumnFamily;

GrantedLoop::GrantedLoop(QueueShardState& state, EndLoop& ends, SuspectLoop& suspects)
    : state_(state),
      ends_(ends),
      suspects_(suspects),
      watch_(state.core.client, state.core.executor, /*excluding_own=*/true,
             {.on_open =
                  [this](const kv::ScanResult&) {
                    if (on_watching_ != nullptr) return on_watching_();
                    ScanAgain();
                  },
              .on_batch = [this](const kv::WatchBatch& batch) { OnBatch(batch); },
              .on_lagged = [this] { StartWatch(); }}) {}

void GrantedLoop::Start(std::function<void()> watched) {
  on_watching_ = std::move(watched);
  StartWatch();
}

void GrantedLoop::StartWatch() {
  ++generation_;
  scanning_ = true;
  state_.granted.KeepEnded();
  // Only for the commit number at which the watch begins. The full scan follows once it is open.
  watch_.Start({.cf = ColumnFamily::kInflight,
                .begin = InflightShardBegin(state_.shard),
                .end = InflightShardEnd(state_.shard),
                .limit = 1,
                .keys_only = true});
}

void GrantedLoop::OnScanned(kv::CommitSeq seq) {
  on_watching_ = nullptr;
  scanning_ = false;
  scanned_seq_ = seq;
  AdoptWatched(std::exchange(watched_claims_, {}));
  state_.core.wake();
}

// The first scan found all claims of former owners, so a claim that is not known is new.
void GrantedLoop::ScanAgain() {
  ScanInflight(
      state_, [this, generation = generation_](std::vector<kv::Entry> inflight, kv::CommitSeq seq) {
        if (generation != generation_) return;
        for (LeftClaim& claim : PlanTakeover(inflight).claims) {
          if (IsGranted(claim.id) && state_.granted.Add(claim.id)) Adopt(std::move(claim), 0);
        }
        OnScanned(seq);
      });
}

void GrantedLoop::OnBatch(const kv::WatchBatch& batch) {
  // The watch has now delivered everything up to the scan: no ended claim can show up again.
  if (!scanning_ && state_.granted.keeping() && batch.seq > scanned_seq_)
    state_.granted.ForgetEnded();
  std::vector<WatchedClaim> claims;
  const bool none_told = Perturb(state_.core.runtime, Site::kGrantedClaimNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind != kv::Mutation::Kind::kPut) continue;
    const std::optional<InflightKey> key = DecodeInflightKey(mutation.key);
    if (!key.has_value() || !key->is_claim() || !IsGranted(key->claim)) continue;
    claims.push_back({.id = key->claim,
                      .value = mutation.value,
                      .omitted = mutation.value_omitted || none_told,
                      .seq = batch.seq});
  }
  if (scanning_) {
    watched_claims_.insert(watched_claims_.end(), std::make_move_iterator(claims.begin()),
                           std::make_move_iterator(claims.end()));
    return;
  }
  AdoptWatched(std::move(claims));
  state_.core.wake();
}

void GrantedLoop::AdoptWatched(std::vector<WatchedClaim> claims) {
  std::vector<WatchedClaim> omitted;
  for (WatchedClaim& claim : claims) {
    if (!state_.granted.Add(claim.id)) continue;
    if (claim.omitted) {
      omitted.push_back(std::move(claim));
    } else {
      AdoptRecord(claim);
    }
  }
  if (!omitted.empty()) ReadOmitted(std::move(omitted));
}

// GrantedClaims knows these claims already, so they must be read even if the watch is lost.
void GrantedLoop::ReadOmitted(std::vector<WatchedClaim> claims) {
  std::vector<kv::Key> keys;
  for (const WatchedClaim& claim : claims)
    keys.push_back({.cf = ColumnFamily::kInflight, .key = EncodeClaimKey(claim.id)});
  state_.core.client.MultiGet(std::move(keys), state_.core.executor,
                              state_.WhileOwned([this, claims = std::move(claims)](
                                                    absl::StatusOr<kv::GetResult> result) mutable {
                                if (!result.ok()) return ReadOmitted(std::move(claims));
                                for (size_t i = 0; i < claims.size(); ++i) {
                                  if (!result->values[i].has_value()) {
                                    state_.granted.Forget(claims[i].id);
                                    continue;
                                  }
                                  claims[i].value = *std::move(result->values[i]);
                                  AdoptRecord(claims[i]);
                                }
                                state_.core.wake();
                              }));
}

void GrantedLoop::AdoptRecord(const WatchedClaim& watched) {
  storage::v1::ClaimRecord record;
  if (!record.ParseFromString(watched.value)) {
    state_.core.metrics.broken_rows.Increment();
    return;
  }
  LeftClaim claim;
  claim.id = watched.id;
  claim.claim_time_micros = record.claim_time_micros();
  claim.timeout_max_micros = record.delivery_timeout_max_micros();
  for (storage::v1::ClaimRecord::Entry& entry : *record.mutable_entries()) {
    LeftEntry& left = claim.entries.emplace_back();
    for (const storage::v1::IndexRange& range : entry.ranges())
      left.open.push_back({range.first(), range.count()});
    left.record = std::move(entry);
  }
  Adopt(std::move(claim), watched.seq);
}

void GrantedLoop::Adopt(LeftClaim left, kv::CommitSeq seq) {
  if (stopped_) {
    arrived_late_.push_back(std::move(left));
    return;
  }
  const std::shared_ptr<Claim> claim = MakeGrantedClaim(left);
  if (claim == nullptr || claim->open == 0) {
    // The claim stays in the store. The owner of its policy takes its events back.
    state_.core.metrics.broken_rows.Increment();
    return;
  }
  state_.core.metrics.claims.Increment();
  claim->granted_seq = seq;
  state_.AddClaim(claim);
  std::vector<GrantedPiece> one_offs;
  for (GrantedPiece& piece : OpenPieces(claim, left)) {
    if (piece.claimed().row_stays) {
      one_offs.push_back(std::move(piece));
    } else {
      Resolve(std::move(piece));
    }
  }
  if (!one_offs.empty()) ReadRows(std::move(one_offs));
}

// Only the row of a one-off event has its payload. Beyond kPayloadsAtOnce they are read in parts.
void GrantedLoop::ReadRows(std::vector<GrantedPiece> pieces) {
  std::vector<GrantedPiece> rest;
  if (pieces.size() > kPayloadsAtOnce) {
    rest.assign(std::make_move_iterator(pieces.begin() + kPayloadsAtOnce),
                std::make_move_iterator(pieces.end()));
    pieces.resize(kPayloadsAtOnce);
  }
  std::vector<kv::Key> keys;
  keys.reserve(pieces.size());
  for (const GrantedPiece& piece : pieces)
    keys.push_back({.cf = ColumnFamily::kEvents, .key = std::string(piece.claimed().event_key)});
  state_.core.client.MultiGet(
      std::move(keys), state_.core.executor,
      state_.WhileOwned([this, pieces = std::move(pieces),
                         rest = std::move(rest)](absl::StatusOr<kv::GetResult> result) mutable {
        if (stopped_) {
          for (std::vector<GrantedPiece>* each : {&pieces, &rest}) {
            for (const GrantedPiece& piece : *each)
              ends_.Add(ReturnOutcome(piece, state_.core.client.NowLow(), /*unreachable=*/false));
          }
          return;
        }
        if (!result.ok()) {
          pieces.insert(pieces.end(), std::make_move_iterator(rest.begin()),
                        std::make_move_iterator(rest.end()));
          return ReadRows(std::move(pieces));
        }
        for (size_t i = 0; i < pieces.size(); ++i) {
          storage::v1::EventRecord row;
          // Without its row the event has ended, and its token manager knows no grant of it.
          if (!result->values[i].has_value() || !row.ParseFromString(*result->values[i])) {
            ends_.Add(ReturnOutcome(pieces[i], state_.core.client.NowLow(), /*unreachable=*/false));
            continue;
          }
          pieces[i].claimed().event.SetPayload(std::move(*row.mutable_payload()));
          Resolve(std::move(pieces[i]));
        }
        if (!rest.empty()) ReadRows(std::move(rest));
        state_.core.wake();
      }));
}

// True if the entry's context is known. False: its records are being read, or it was returned.
bool GrantedLoop::ResolveOneOff(const GrantedPiece& piece, ClaimedEntry& entry) {
  std::unique_ptr<ResolvedRow> row =
      ResolveRow(state_.core.cache, entry.event_key, entry.event.record());
  if (row->Is(RowJudgement::Action::kFetch)) {
    awaiting_records_.push_back(piece);
    return false;
  }
  if (!row->Is(RowJudgement::Action::kSend)) {
    ends_.Add(ReturnOutcome(piece, state_.core.client.NowLow(), /*unreachable=*/false));
    return false;
  }
  entry.event.ClearPayload();
  entry.context = std::move(row->entry.context);
  return true;
}

// Reads the state too: only a cached state is kept current by the watch, and Shard::BeforeSend
// looks at it.
void GrantedLoop::Resolve(GrantedPiece piece) {
  ClaimedEntry& entry = piece.claimed();
  if (entry.context == nullptr && entry.row_stays) {
    if (!ResolveOneOff(piece, entry)) return;
    entry.room = state_.core.sends.RoomKey(entry);
  } else if (entry.context == nullptr) {
    const auto definition = state_.core.cache.Definition(entry.key.uid, entry.claimed_version);
    const auto known = state_.core.cache.State(entry.key.uid);
    if (definition == nullptr || known == nullptr) {
      awaiting_records_.push_back(std::move(piece));
      return;
    }
    // The schedule was deleted with its definition.
    if (definition->record == nullptr)
      return ends_.Add(ReturnOutcome(piece, state_.core.client.NowLow(), /*unreachable=*/false));
    entry.context = ContextOfScheduled(definition, entry);
    entry.room = state_.core.sends.RoomKey(entry);
  }
  if (piece.claim->IsSuspect(entry))
    return suspects_.Add(piece.claim, piece.entry, piece.first, piece.count);
  QueueForTarget(std::move(piece));
}

void GrantedLoop::OnFetched() {
  for (GrantedPiece& piece : std::exchange(awaiting_records_, {})) Resolve(std::move(piece));
}

void GrantedLoop::QueueForTarget(GrantedPiece piece) {
  const std::string& target = piece.claimed().room_key();
  const auto queue = blocked_.find(target);
  if (queue != blocked_.end()) {
    queue->second.push_back(std::move(piece));
    return;
  }
  const uint64_t room = state_.core.sends.Room(target);
  if (room >= piece.count) return HandToSendLoop(piece);
  GrantedPiece given = piece;
  given.count = room;
  if (room > 0) HandToSendLoop(given);
  piece.first += room;
  piece.count -= room;
  blocked_[target].push_back(std::move(piece));
}

// Lateness counts from the grant: waiting for a token is no delay of the handler.
void GrantedLoop::HandToSendLoop(const GrantedPiece& piece) {
  const ClaimedEntry& entry = piece.claimed();
  state_.core.sends.Reserve(entry.room_key(), piece.count);
  state_.core.sends.Add(piece.claim, piece.entry, piece.first, piece.count,
                        std::max(entry.key.due_time, FromMicros(piece.claim->claim_time_micros)));
}

void GrantedLoop::Step(absl::Time now) {
  if (!awaiting_records_.empty()) state_.core.cache.Fetch();
  if (!blocked_.empty()) Unblock(now);
}

void GrantedLoop::Unblock(absl::Time now) {
  for (auto target = blocked_.begin(); target != blocked_.end();) {
    std::deque<GrantedPiece>& pieces = target->second;
    while (!pieces.empty()) {
      GrantedPiece& front = pieces.front();
      if (front.claimed().grant->send_before <= now) {
        // If the handler has room for other targets, this target is the reason.
        const bool unreachable = !state_.core.sends.full();
        ends_.Add(ReturnOutcome(front, now, unreachable));
        pieces.pop_front();
        continue;
      }
      const uint64_t room = state_.core.sends.Room(target->first);
      if (room == 0) break;
      GrantedPiece given = front;
      given.count = std::min(room, front.count);
      HandToSendLoop(given);
      front.first += given.count;
      front.count -= given.count;
      if (front.count == 0) pieces.pop_front();
    }
    target = pieces.empty() ? blocked_.erase(target) : std::next(target);
  }
}

void GrantedLoop::Stop() {
  const absl::Time now = state_.core.client.NowLow();
  stopped_ = true;
  for (const GrantedPiece& piece : std::exchange(awaiting_records_, {}))
    ends_.Add(ReturnOutcome(piece, now, /*unreachable=*/false));
  for (auto& [target, pieces] : std::exchange(blocked_, {})) {
    for (const GrantedPiece& piece : pieces)
      ends_.Add(ReturnOutcome(piece, now, /*unreachable=*/false));
  }
}

// Returns the events of claims that arrived after Stop, so that the token managers do not have to
// wait for the next owner. Only once: claims that keep arriving must not delay the drain.
bool GrantedLoop::ReturnLate() {
  if (arrived_late_.empty() || std::exchange(returned_late_, true)) return false;
  const absl::Time now = state_.core.client.NowLow();
  bool any = false;
  for (LeftClaim& left : std::exchange(arrived_late_, {})) {
    const std::shared_ptr<Claim> claim = MakeGrantedClaim(left);
    if (claim == nullptr || claim->open == 0) continue;
    state_.AddClaim(claim);
    for (const GrantedPiece& piece : OpenPieces(claim, left))
      ends_.Add(ReturnOutcome(piece, now, /*unreachable=*/false));
    any = true;
  }
  return any;
}

}  // namespace escapement::handler
