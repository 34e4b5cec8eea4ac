#include "services/handler/granted/granted_loop.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/runtime/perturb.h"
#include "common/storage/inflight_table.h"
#include "services/handler/claims/inflight_scan.h"
#include "services/handler/intake/row_resolver.h"

namespace escapement::handler {

using kv::ColumnFamily;

void GrantedLoop::Start(std::function<void()> watched) {
  watched_ = std::move(watched);
  Watch();
}

void GrantedLoop::Watch() {
  ++generation_;
  watch_.reset();
  scanning_ = true;
  state_.granted.Keep();
  // A snapshot for the watch to begin at; the scan is made after it.
  const std::string begin = InflightShardBegin(state_.shard);
  state_.core.client.Scan(
      {.cf = ColumnFamily::kInflight,
       .begin = begin,
       .end = KeyAfter(begin),
       .limit = 1,
       .keys_only = true},
      state_.core.executor,
      state_.WhileOwned([this, generation = generation_](absl::StatusOr<kv::ScanResult> result) {
        if (generation != generation_) return;
        if (!result.ok()) return Watch();
        OpenWatch(result->seq);
      }));
}

void GrantedLoop::OpenWatch(kv::CommitSeq from) {
  const uint64_t generation = generation_;
  watch_ = state_.core.client.OpenWatch(
      {.cf = ColumnFamily::kInflight,
       .begin = InflightShardBegin(state_.shard),
       .end = InflightShardEnd(state_.shard),
       .from_seq = from},
      /*excluding_own=*/true, state_.core.executor,
      {.on_batch = state_.WhileOwned([this, generation](const kv::WatchBatch& batch) {
         if (generation == generation_) OnBatch(batch);
       }),
       .on_lagged = state_.WhileOwned([this, generation](const absl::Status&) {
         if (generation == generation_) Watch();
       })});
  if (watched_ != nullptr) {
    watched_();
  } else {
    ScanAgain();
  }
}

void GrantedLoop::OnScanned(kv::CommitSeq seq) {
  watched_ = nullptr;
  scanning_ = false;
  scanned_seq_ = seq;
  TakeTold(std::exchange(told_, {}));
  state_.core.wake();
}

// Claims of former owners were all found by the first scan: what is not known has come since.
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
  // What was committed up to the scan has been told.
  if (!scanning_ && state_.granted.keeping() && batch.seq > scanned_seq_) state_.granted.Release();
  std::vector<Told> claims;
  const bool none_told = Perturb(state_.core.runtime, Site::kGrantedClaimNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind != kv::Mutation::Kind::kPut) continue;
    const std::optional<InflightKey> key = DecodeInflightKey(mutation.key);
    if (!key.has_value() || key->is_end || !IsGranted(key->claim)) continue;
    claims.push_back({.id = key->claim,
                      .value = mutation.value,
                      .omitted = mutation.value_omitted || none_told,
                      .seq = batch.seq});
  }
  if (scanning_) {
    told_.insert(told_.end(), std::make_move_iterator(claims.begin()),
                 std::make_move_iterator(claims.end()));
    return;
  }
  TakeTold(std::move(claims));
  state_.core.wake();
}

void GrantedLoop::TakeTold(std::vector<Told> told) {
  std::vector<Told> omitted;
  for (Told& claim : told) {
    if (!state_.granted.Add(claim.id)) continue;
    if (claim.omitted) {
      omitted.push_back(std::move(claim));
    } else {
      Parse(claim);
    }
  }
  if (!omitted.empty()) ReadOmitted(std::move(omitted));
}

// They are known from now on, and so must be read whatever becomes of the watch.
void GrantedLoop::ReadOmitted(std::vector<Told> told) {
  std::vector<kv::Key> keys;
  for (const Told& claim : told)
    keys.push_back({.cf = ColumnFamily::kInflight, .key = EncodeClaimKey(claim.id)});
  state_.core.client.MultiGet(std::move(keys), state_.core.executor,
                              state_.WhileOwned([this, told = std::move(told)](
                                                    absl::StatusOr<kv::GetResult> result) mutable {
                                if (!result.ok()) return ReadOmitted(std::move(told));
                                for (size_t i = 0; i < told.size(); ++i) {
                                  if (!result->values[i].has_value()) {
                                    state_.granted.Forget(told[i].id);
                                    continue;
                                  }
                                  told[i].value = *std::move(result->values[i]);
                                  Parse(told[i]);
                                }
                                state_.core.wake();
                              }));
}

void GrantedLoop::Parse(const Told& told) {
  storage::v1::ClaimRecord record;
  if (!record.ParseFromString(told.value)) {
    HandlerStats::Add(state_.core.stats.broken_rows, 1);
    return;
  }
  LeftClaim claim;
  claim.id = told.id;
  claim.claim_time_micros = record.claim_time_micros();
  claim.timeout_max_micros = record.delivery_timeout_max_micros();
  for (storage::v1::ClaimRecord::Entry& entry : *record.mutable_entries()) {
    LeftEntry& left = claim.entries.emplace_back();
    for (const storage::v1::IndexRange& range : entry.ranges())
      left.open.push_back({range.first(), range.count()});
    left.record = std::move(entry);
  }
  Adopt(std::move(claim), told.seq);
}

void GrantedLoop::Adopt(LeftClaim left, kv::CommitSeq seq) {
  if (stopped_) {
    late_.push_back(std::move(left));
    return;
  }
  const std::shared_ptr<Claim> claim = MakeGrantedClaim(left);
  if (claim == nullptr || claim->open == 0) {
    // It stays: nothing can be said of it, and its policy's owner will take its events back.
    HandlerStats::Add(state_.core.stats.broken_rows, 1);
    return;
  }
  HandlerStats::Add(state_.core.stats.claims, 1);
  claim->granted_seq = seq;
  state_.AddClaim(claim);
  for (GrantedPiece& piece : OpenPieces(claim, left)) Resolve(std::move(piece));
}

// The state is read too, so that a change of the schedule is heard of.
void GrantedLoop::Resolve(GrantedPiece piece) {
  ClaimedEntry& entry = piece.claimed();
  if (entry.context == nullptr) {
    const auto definition = state_.core.cache.Definition(entry.key.uid, entry.claimed_version);
    const auto known = state_.core.cache.State(entry.key.uid);
    if (definition == nullptr || known == nullptr) {
      unknown_.push_back(std::move(piece));
      return;
    }
    // The definition went with its schedule.
    if (definition->record == nullptr)
      return ends_.Add(Returned(piece, state_.core.client.NowLow(), /*unreachable=*/false));
    entry.context = ContextOfScheduled(*definition, entry);
  }
  Place(std::move(piece));
}

void GrantedLoop::OnFetched() {
  for (GrantedPiece& piece : std::exchange(unknown_, {})) Resolve(std::move(piece));
}

void GrantedLoop::Place(GrantedPiece piece) {
  const std::string& target = piece.claimed().context->target_key;
  const auto queue = blocked_.find(target);
  if (queue != blocked_.end()) {
    queue->second.push_back(std::move(piece));
    return;
  }
  const uint64_t room = state_.core.sends.Room(target);
  if (room >= piece.count) return Give(piece);
  GrantedPiece given = piece;
  given.count = room;
  if (room > 0) Give(given);
  piece.first += room;
  piece.count -= room;
  blocked_[target].push_back(std::move(piece));
}

// Its lateness counts from its grant: what it waited for the right to go is no delay of ours.
void GrantedLoop::Give(const GrantedPiece& piece) {
  const ClaimedEntry& entry = piece.claimed();
  state_.core.sends.Reserve(entry.context->target_key, piece.count);
  state_.core.sends.Add(piece.claim, piece.entry, piece.first, piece.count,
                        std::max(entry.key.due_time, FromMicros(piece.claim->claim_time_micros)));
}

void GrantedLoop::Step(absl::Time now) {
  if (!unknown_.empty()) state_.core.cache.Fetch();
  if (!blocked_.empty()) Unblock(now);
}

void GrantedLoop::Unblock(absl::Time now) {
  for (auto target = blocked_.begin(); target != blocked_.end();) {
    std::deque<GrantedPiece>& pieces = target->second;
    while (!pieces.empty()) {
      GrantedPiece& front = pieces.front();
      if (front.claimed().grant->send_before <= now) {
        // It is the target that had no room, unless the handler had none for any.
        const bool unreachable = !state_.core.sends.full();
        ends_.Add(Returned(front, now, unreachable));
        pieces.pop_front();
        continue;
      }
      const uint64_t room = state_.core.sends.Room(target->first);
      if (room == 0) break;
      GrantedPiece given = front;
      given.count = std::min(room, front.count);
      Give(given);
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
  for (const GrantedPiece& piece : std::exchange(unknown_, {}))
    ends_.Add(Returned(piece, now, /*unreachable=*/false));
  for (auto& [target, pieces] : std::exchange(blocked_, {})) {
    for (const GrantedPiece& piece : pieces) ends_.Add(Returned(piece, now, /*unreachable=*/false));
  }
}

// Nothing of it was sent: the token managers need not wait until the next owner can tell. Once
// only, or those that come again and again would keep the shard.
bool GrantedLoop::ReturnLate() {
  if (late_.empty() || std::exchange(returned_late_, true)) return false;
  const absl::Time now = state_.core.client.NowLow();
  bool any = false;
  for (LeftClaim& left : std::exchange(late_, {})) {
    const std::shared_ptr<Claim> claim = MakeGrantedClaim(left);
    if (claim == nullptr || claim->open == 0) continue;
    state_.AddClaim(claim);
    for (const GrantedPiece& piece : OpenPieces(claim, left))
      ends_.Add(Returned(piece, now, /*unreachable=*/false));
    any = true;
  }
  return any;
}

}  // namespace escapement::handler
