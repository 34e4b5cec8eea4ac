#include "services/handler/claims/suspect_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/claim_takeover.pb.h"
#include "services/handler/base/options.h"

namespace escapement::handler {
namespace {

// How many events a step looks at for one whose target has room.
constexpr size_t kLookedAtMax = 16;
// How often the waiting events are checked for their send_before.
constexpr absl::Duration kCheckEvery = absl::Milliseconds(100);

}  // namespace

SuspectLoop::~SuspectLoop() { FreeTurn(); }

void SuspectLoop::FreeTurn() {
  if (out_ == nullptr) return;
  out_ = nullptr;
  CHECK(std::exchange(state_.core.suspect_out, false));
}

void SuspectLoop::Add(std::shared_ptr<Claim> claim, uint32_t entry, uint64_t first,
                      uint64_t count) {
  CHECK_LT(entry, claim->entries.size());
  CHECK(claim->entries[entry].context != nullptr);
  state_.core.metrics.suspects.Increment(count);
  waiting_.push_back({.claim = std::move(claim), .entry = entry, .first = first, .count = count});
}

void SuspectLoop::Step(absl::Time now) {
  if (out_ != nullptr && !out_->trial.has_value()) FreeTurn();
  if (waiting_.empty()) return;
  ReturnLate(now);
  if (!state_.core.lease_valid(state_.shard) || state_.core.runtime.clock().Elapsed() < not_before_)
    return;
  for (size_t i = std::min(waiting_.size(), kLookedAtMax); i > 0 && !state_.core.suspect_out; --i) {
    const Waiting& front = waiting_.front();
    // A claim that the handler has made ahead of its due time must not keep others from their turn.
    // The record of a claim names one event at a time.
    if (front.claimed().key.due_time <= now && !front.claim->trial.has_value() &&
        state_.core.sends.Room(front.claimed().room_key()) > 0)
      return Begin();
    waiting_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void SuspectLoop::ReturnLate(absl::Time now) {
  const absl::Duration elapsed = state_.core.runtime.clock().Elapsed();
  if (elapsed < checked_ + kCheckEvery) return;
  checked_ = elapsed;
  const auto late =
      std::stable_partition(waiting_.begin(), waiting_.end(), [now](const Waiting& waiting) {
        const EntryGrant* const grant = waiting.claimed().grant.get();
        return grant == nullptr || grant->send_before > now;
      });
  std::for_each(late, waiting_.end(), [this](const Waiting& waiting) { Return(waiting); });
  waiting_.erase(late, waiting_.end());
}

void SuspectLoop::Return(const Waiting& waiting) {
  ends_.Add({.claim = waiting.claim,
             .entry = waiting.entry,
             .kind = EndKind::kReturn,
             .first = waiting.first,
             .count = waiting.count,
             .attempts = waiting.claimed().event.attempts(),
             .complete_micros = ToMicros(state_.core.client.NowLow())});
}

void SuspectLoop::Begin() {
  Waiting& front = waiting_.front();
  const std::shared_ptr<Claim> claim = front.claim;
  CHECK(!claim->trial.has_value());
  claim->trial = {.entry = front.entry, .index = front.first};
  ++front.first;
  if (--front.count == 0) waiting_.pop_front();
  CHECK(!std::exchange(state_.core.suspect_out, true));
  out_ = claim;
  claim->has_takeover_row = true;
  storage::v1::ClaimTakeoverRecord record;
  record.set_lost_claims(claim->lost_claims);
  record.mutable_trial()->set_entry(claim->trial->entry);
  record.mutable_trial()->set_index(claim->trial->index);
  kv::Commit commit;
  commit.fence = {state_.fence};
  commit.groups.push_back({.mutations = {{.cf = kv::ColumnFamily::kInflight,
                                          .key = EncodeClaimTakeoverKey(claim->id),
                                          .value = record.SerializeAsString()}}});
  state_.core.client.CommitAsync(
      std::move(commit), state_.core.executor,
      state_.WhileOwned([this, claim](const absl::StatusOr<kv::CommitResult>& result) {
        if (result.ok()) {
          OnNamed(claim);
        } else if (absl::IsResourceExhausted(result.status())) {
          waiting_.push_front({.claim = claim,
                               .entry = claim->trial->entry,
                               .first = claim->trial->index,
                               .count = 1});
          claim->trial.reset();
          FreeTurn();
          not_before_ = state_.core.runtime.clock().Elapsed() + kRetryCommitDelay;
        } else {
          state_.OnRefused();
        }
        state_.core.wake();
      }));
}

void SuspectLoop::OnNamed(const std::shared_ptr<Claim>& claim) {
  const ClaimedEvent& trial = *claim->trial;
  const ClaimedEntry& entry = claim->entries[trial.entry];
  state_.core.sends.Reserve(entry.room_key(), 1);
  state_.core.sends.Add(claim, trial.entry, trial.index, 1, entry.key.due_time);
}

void SuspectLoop::Stop() {
  for (const Waiting& waiting : waiting_) Return(waiting);
  waiting_.clear();
}

}  // namespace escapement::handler
