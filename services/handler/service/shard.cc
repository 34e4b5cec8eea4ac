#include "services/handler/service/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "services/handler/sending/send_loop.h"

namespace escapement::handler {
namespace {

// A claim may be sent this long after its judgement, or for the delivery timeout if that is longer.
constexpr absl::Duration kJudgedForMin = absl::Seconds(1);

BackoffPolicy BackoffOf(const storage::v1::RetryRecord& retry) {
  return {.min = absl::Microseconds(retry.min_backoff_micros()),
          .max = absl::Microseconds(retry.max_backoff_micros()),
          .multiplier = retry.multiplier()};
}

storage::v1::AttemptRecord::Kind AttemptKindOf(DeliveryStatus status) {
  switch (status) {
    case DeliveryStatus::kAccepted:
      return storage::v1::AttemptRecord::ACCEPTED;
    case DeliveryStatus::kFailed:
      return storage::v1::AttemptRecord::FAILED;
    case DeliveryStatus::kRejected:
      return storage::v1::AttemptRecord::REJECTED;
    case DeliveryStatus::kUnknown:
      return storage::v1::AttemptRecord::UNKNOWN;
    case DeliveryStatus::kUnsent:
      break;
  }
  return storage::v1::AttemptRecord::KIND_UNSPECIFIED;
}

// No retry of a schedule's event begins at its next occurrence or later.
std::optional<absl::Time> NextOccurrenceOf(const ClaimedEntry& entry, const CachedState* state) {
  if (entry.one_off()) return std::nullopt;
  return RetryEnd(entry.event.record(), *entry.context->definition,
                  CheckNotNull(entry.context->cached)->timetable.get(), state);
}

// The name of the pause that an answer to the granted event asks for.
GrantPauses::Name PauseOf(const ClaimedEntry& entry) {
  return {.policy = entry.grant->id.policy,
          .key = entry.event.record().throttle().policy_key(),
          .target_key = entry.context->target_key};
}

// Why the schedule is paused whose target is gone. It has no text of the answer if the status says
// enough, because users see it for long.
std::string PauseReasonOf(const DeliveryResult& result) {
  constexpr size_t kCharsMax = 200;  // as of Schedule.pause_reason
  if (result.status_code == 410) return "the target answered 410 Gone";
  return CleanText(absl::StrCat("the target is gone: ", result.message), kCharsMax);
}

}  // namespace

Shard::Shard(HandlerCore& core, const lease::HeldLease& lease, kv::Condition fence)
    : state_(std::make_shared<QueueShardState>(core, lease, std::move(fence), this)),
      loader_(*state_),
      ends_(*state_, loader_),
      suspects_(*state_, ends_),
      claims_(*state_, loader_, ends_, suspects_),
      retry_sweep_(*state_, claims_),
      granted_(*state_, ends_, suspects_),
      takeover_(*state_, ends_, granted_, suspects_) {}

Shard::~Shard() {
  for (const auto& [order, claim] : state_->claims) claim->owner = nullptr;
}

void Shard::Start() {
  granted_.Start([this] { takeover_.Start([this] { loader_.Start(); }); });
}

void Shard::Load(absl::Time now) {
  if (draining_) return;
  takeover_.Step(now);
  loader_.Step(now);
  retry_sweep_.Step();
  claims_.Prepare(now);
}

void Shard::Finish(absl::Time now) {
  claims_.CommitClaim(now);
  if (!draining_) granted_.Step(now);
  suspects_.Step(now);
  ends_.Step(now);
  if (draining_) CheckDrained();
}

std::optional<absl::Time> Shard::NextDue(absl::Time now) const {
  if (draining_) return std::nullopt;
  std::optional<absl::Time> next = takeover_.NextDue();
  if (next.has_value() && *next <= now) next.reset();
  const ClaimLead& lead = state_->core.lead;
  const std::optional<absl::Time> row = state_->queue.NextDue(lead.LatestDueClaimedAt(now));
  if (row.has_value()) {
    const absl::Time claim_at = lead.ClaimTimeOf(*row);
    next = next.has_value() ? std::min(*next, claim_at) : claim_at;
  }
  return next;
}

absl::Time Shard::FirstDue(absl::Time now) {
  if (read_to_ == absl::InfinitePast() || draining_ || loader_.HasReadTo(now)) read_to_ = now;
  return std::min(read_to_, state_->queue.FirstDue().value_or(read_to_));
}

void Shard::Drain(Closure done) {
  CHECK(done != nullptr);
  draining_ = true;
  drained_ = std::move(done);
  claims_.Stop();
  retry_sweep_.Stop();
  takeover_.Stop();
  granted_.Stop();
  suspects_.Stop();
  state_->core.executor->PostAfter(state_->core.options.drain_max, state_->WhileOwned([this] {
    if (drained_) std::exchange(drained_, nullptr)();
  }));
  CheckDrained();
}

void Shard::CheckDrained() {
  if (!drained_ || claims_.committing() || !state_->claims.empty() || !ends_.idle()) return;
  if (granted_.ReturnLate()) return state_->core.wake();
  std::exchange(drained_, nullptr)();
}

// If the schedule was paused or deleted since the claim, its events become a row again. Parking
// them here could strand them, because the schedule may be resumed before the end is committed.
// Granted events go back to their token manager, which judges them again. The same happens if the
// target has asked for a pause since the claim, or if the event is missed by now.
ClaimOwner::Check Shard::BeforeSend(const std::shared_ptr<Claim>& claim, uint32_t entry_index,
                                    uint64_t first, uint64_t count) {
  if (!state_->core.lease_valid(state_->shard)) return Check::kWait;
  CHECK_LT(entry_index, claim->entries.size());
  const ClaimedEntry& entry = claim->entries[entry_index];
  const bool paused = state_->core.sends.IsPaused(entry.room_key());
  if (!paused && MayBeSent(*claim, entry)) return Check::kSend;
  ends_.Add({.claim = claim,
             .entry = entry_index,
             .kind = EndKind::kReturn,
             .first = first,
             .count = count,
             .attempts = entry.event.attempts(),
             .unreachable = paused});
  return Check::kEnded;
}

bool Shard::MayBeSent(const Claim& claim, const ClaimedEntry& entry) const {
  const absl::Time missed_at = MissedAt(entry.event);
  if (missed_at != absl::InfiniteFuture() && claim.lost_claims == 0 &&
      state_->core.client.NowLow() >= missed_at)
    return false;
  if (entry.grant == nullptr && entry.one_off()) return true;
  const absl::Time now = state_->core.client.NowLow();
  if (entry.grant != nullptr && now > entry.grant->send_before) return false;
  if (entry.grant != nullptr &&
      state_->core.grant_pauses.IsPaused(PauseOf(entry), state_->core.runtime.clock().Elapsed()))
    return false;
  // The judgement is too old, for example after a pause of this process: a pause of the schedule
  // must stop its events within this time.
  if (now > claim.judged + std::max(entry.context->timeout, kJudgedForMin)) return false;
  const std::shared_ptr<const CachedState> cached = state_->core.cache.StateIfKnown(entry.key.uid);
  // The grant was made under a newer state than the cached one.
  if (cached == nullptr || cached->seq < claim.granted_seq) return true;
  if (!cached->record.has_value() ||
      cached->record->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED ||
      HeldByPause(entry.event.record(), *cached->record) ||
      CancelReason(entry.event.record(), entry.key.occurrence, *cached->record).has_value())
    return false;
  return cached->record->version() <= entry.claimed_version;
}

void Shard::CountHeartbeat(absl::Duration late) {
  HandlerMetrics& metrics = state_->core.metrics;
  metrics.heartbeats.Increment();
  metrics.heartbeat_lateness_seconds.Observe(absl::ToDoubleSeconds(late));
}

void Shard::OnResult(const std::shared_ptr<Claim>& claim, AttemptEnd end) {
  CHECK_LT(end.entry, claim->entries.size());
  const ClaimedEntry& entry = claim->entries[end.entry];
  CHECK(entry.context != nullptr);
  DeliveryResult& result = end.result;
  Outcome outcome{.claim = claim,
                  .entry = end.entry,
                  .kind = EndKind::kSucceeded,
                  .first = end.index,
                  .attempts = entry.event.attempts() + 1,
                  .dispatch_micros = end.dispatch_micros,
                  .complete_micros = ToMicros(end.time),
                  .attempt = AttemptKindOf(result.status),
                  .status = result.status_code,
                  .answer = std::move(result.answer)};
  if (result.status == DeliveryStatus::kAccepted) {
    state_->core.metrics.accepted.Increment();
    if (entry.context->source == kHeartbeatSource)
      CountHeartbeat(end.time - entry.context->launch_time);
    if (entry.grant != nullptr && entry.grant->on_release) outcome.work = result.work;
    if (outcome.work == DeliveryWork::kFailed)
      outcome.reason = CleanText(result.message, kDeliveryMessageBytesMax);
    ends_.Add(std::move(outcome));
    return;
  }
  // A reason that is not valid text would make the records unreadable.
  outcome.reason = CleanText(result.message, kDeliveryMessageBytesMax);
  outcome.kind = EndKind::kFailed;
  if (result.gone && !entry.one_off()) outcome.gone = PauseReasonOf(result);
  // The target counts as unreachable only if it has answered no attempt since this one began. If it
  // answered others, it is slow, but there.
  outcome.unreachable = end.silent || result.status == DeliveryStatus::kUnsent;
  if (result.status == DeliveryStatus::kFailed && result.retry_after > absl::ZeroDuration())
    outcome.paused_until = end.time + result.retry_after;
  if (entry.grant != nullptr && outcome.paused_until > end.time) {
    const absl::Duration elapsed = state_->core.runtime.clock().Elapsed();
    state_->core.grant_pauses.Note(PauseOf(entry), elapsed + result.retry_after, elapsed);
  }
  const storage::v1::RetryRecord& retry = entry.context->definition->delivery().retry();
  const absl::Time tried_since = TriedSince(entry.event, FromMicros(end.dispatch_micros));
  if (result.status == DeliveryStatus::kUnsent) {
    // The consumer has not seen the event: it waits in the store again, and only age can end it.
    --outcome.attempts;
    const absl::Duration age_max = absl::Microseconds(retry.max_age_micros());
    // The token manager checks the age of granted events.
    if (entry.grant != nullptr || end.time < tried_since + age_max) outcome.kind = EndKind::kReturn;
  } else if (result.status != DeliveryStatus::kRejected) {
    const auto cached = state_->core.cache.StateIfKnown(entry.key.uid);
    const RetryPlan plan = PlanRetry({.backoff = BackoffOf(retry),
                                      .attempts_max = retry.max_attempts(),
                                      .age_max = absl::Microseconds(retry.max_age_micros()),
                                      .attempts = AttemptsOfRound(entry.event, outcome.attempts),
                                      .tried_since = tried_since,
                                      .now = end.time,
                                      .retry_after = result.retry_after,
                                      .random = state_->core.runtime.random().Next(),
                                      .next_occurrence = NextOccurrenceOf(entry, cached.get())});
    if (plan.at.has_value()) {
      outcome.kind = EndKind::kRetry;
      outcome.retry_at = *plan.at;
      if (plan.retry_after_cut) outcome.reason = RetryAfterCut(outcome.reason);
    } else if (plan.past_next_occurrence) {
      outcome.reason = PastNextOccurrence(outcome.reason);
    }
  }
  ends_.Add(std::move(outcome));
}

}  // namespace escapement::handler
