#include "services/token_manager/granting/token_release.h"

#include <algorithm>
#include <utility>

#include "common/backoff/backoff.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

using storage::v1::AttemptRecord;
using storage::v1::GrantReportRecord;

constexpr char kHoldExpired[] = "hold_expired";

uint64_t Sum(const HeldRanges& ranges, bool undelivered_only) {
  uint64_t sum = 0;
  for (const HeldRange& range : ranges)
    sum += undelivered_only && range.delivered_micros != 0 ? 0 : range.count;
  return sum;
}

// It has been given to a handler after the one that it was granted to: its send_before is later.
bool ClaimedAgain(const Grant& grant, absl::Duration send_within) {
  return grant.record.send_before_micros() - grant.record.grant_time_micros() >
         absl::ToInt64Microseconds(send_within) + 1;
}

bool MayFail(const GrantReportRecord::Entry& entry) {
  return entry.kind() == GrantReportRecord::COMPLETION_FAILED ||
         entry.kind() == GrantReportRecord::COMPLETION_FAILED_FINALLY ||
         entry.kind() == GrantReportRecord::FAILED || entry.unreachable();
}

}  // namespace

RowJudgement Judge(PolicyShardState& state, PolicyState& policy, const RowSource& source) {
  RowJudgement judged =
      JudgeQueueRow(state.core.cache, source.uid, source.occurrence, source.event);
  if (judged.action == RowJudgement::Action::kFetch) AwaitRecords(state, policy, source.group);
  return judged;
}

const CachedDefinition* TokenRelease::DefinitionOf(const Grant& grant) {
  const std::optional<Uid> delivery = DeliveryHashOf(grant.source->event);
  return state_.core.cache
      .Definition(delivery.value_or(grant.source->uid), grant.record.claimed_version())
      .get();
}

TokenRelease::Named TokenRelease::Find(const Entry& entry) {
  if (entry.policy_uid().size() != Uid::kBytes) return {};
  if (last_ == nullptr || last_->uid.bytes() != entry.policy_uid())
    last_ = state_.Find(Uid::FromBytes(entry.policy_uid()));
  if (last_ == nullptr) return {};
  return {.policy = last_, .grant = last_->grants.Find({entry.epoch(), entry.number()})};
}

bool TokenRelease::CanApply(const Entry& entry) {
  const bool resend = entry.kind() == GrantReportRecord::RESEND;
  if (!resend && !MayFail(entry)) return true;
  const auto [policy, grant] = Find(entry);
  if (grant == nullptr) return true;
  return resend ? CanResend(*policy, *grant, entry) : KnowsForFailure(*policy, *grant);
}

bool TokenRelease::NeedsPayload(const Entry& entry) {
  if (!MayFail(entry)) return false;
  const Grant* grant = Find(entry).grant;
  return grant != nullptr && grant->source->one_off();
}

bool TokenRelease::KnowsForFailure(PolicyState& policy, const Grant& grant) {
  const RowSource& source = *grant.source;
  const bool definition = DefinitionOf(grant) != nullptr;
  const bool payload = !source.one_off() ||
                       state_.payloads.Find(LimitedEventKey(source.uid, source.event)) != nullptr;
  if (definition && payload) return true;
  // Its group does not wait for a payload: what waits in it needs none of one that is held.
  AwaitRecords(state_, policy, definition ? policy.uid : source.group);
  return false;
}

// The report stays until its events can be claimed: else a successor would not know of it.
bool TokenRelease::CanResend(PolicyState& policy, const Grant& grant, const Entry& entry) {
  if (policy.grants.Undelivered(grant.key(), entry.first(), entry.count()).empty()) return true;
  const RowJudgement judged = Judge(state_, policy, *grant.source);
  if (judged.action == RowJudgement::Action::kFetch) return false;
  const QueueShards& shards = state_.core.queue_shards;
  if (judged.action != RowJudgement::Action::kSend ||
      shards.NextWithRoom(0, round_.now).has_value() ||
      shards.Live(static_cast<uint16_t>(grant.record.queue_shard()), round_.now))
    return true;
  no_room_ = true;
  return false;
}

bool TokenRelease::Apply(const Entry& entry) {
  ++round_.entries;
  round_.bytes += 256 + entry.output().size() + entry.reason().size();
  const auto [policy, grant] = Find(entry);
  if (grant == nullptr || entry.count() == 0) return false;
  NoteTarget(*policy, *grant, entry);
  if (!ApplyTo(*policy, *grant, entry)) return false;
  Touch(*policy, *grant);
  return true;
}

void TokenRelease::HoldEnded(PolicyState& policy, uint64_t events) {
  policy.counts.set_expired(policy.counts.expired() + events);
  state_.core.metrics.expired.Increment(events);
  if (policy.counts.returns() == storage::v1::PolicyCountsRecord::NONE)
    policy.counts.set_returns(storage::v1::PolicyCountsRecord::HOLD_ENDED);
}

bool TokenRelease::ApplyTo(PolicyState& policy, const Grant& grant, const Entry& entry) {
  switch (entry.kind()) {
    case GrantReportRecord::DELIVERED:
    case GrantReportRecord::EXTENDED:
      return Mark(policy, grant, entry);
    case GrantReportRecord::RESEND:
      return Resent(policy, grant, entry);
    case GrantReportRecord::RETURNED:
      // Unattempted by this handler; but the one before it may have sent it.
      if (ClaimedAgain(grant, state_.core.options.send_within)) return false;
      break;
    default:
      if (entry.kind() < GrantReportRecord::DELIVERED || entry.kind() > GrantReportRecord::EXTENDED)
        return false;
  }
  const Released released = ReleaseTokens(policy, grant, entry.first(), entry.count());
  if (released.events == 0) return false;
  EndedRange end = ReportedEndOf(entry, round_.micros);
  if (entry.kind() != GrantReportRecord::FAILED && entry.kind() != GrantReportRecord::RETRY &&
      entry.kind() != GrantReportRecord::RETURNED) {
    // It shows that the events were delivered, if that was unknown.
    CountDelivered(grant, Sum(released.ranges, /*undelivered_only=*/true));
    // A consumer gives tokens back, by a call or by an answer that says the work is done.
    if (entry.kind() != GrantReportRecord::SUCCEEDED ||
        grant.source->event.throttle().on_release()) {
      state_.ForEachLimit(policy, *grant.source, [](PolicyState& of, const std::string&, uint64_t) {
        of.counts.set_returns(storage::v1::PolicyCountsRecord::GIVEN_BACK);
      });
    }
  }
  switch (entry.kind()) {
    case GrantReportRecord::COMPLETION_FAILED:
      Failed(released, end);
      break;
    case GrantReportRecord::RETRY:
      Retry(released, end, entry.retry_at_micros() != 0 ? entry.retry_at_micros() : round_.micros,
            end.attempt.begin_micros != 0 ? end.attempt.begin_micros : end.complete_micros);
      break;
    case GrantReportRecord::RETURNED:
      policy.counts.set_returned(policy.counts.returned() + released.events);
      state_.core.metrics.returned.Increment(released.events);
      if (entry.unreachable() && TriedTooLong(grant)) {
        Ended(released, std::move(end));
      } else {
        PutReturned(released, /*tried_micros=*/entry.unreachable() ? round_.micros : 0);
      }
      break;
    default:
      Ended(released, std::move(end));
  }
  return true;
}

// nullopt: its definition is not in memory, and it is no probe.
std::optional<std::string> TokenRelease::TargetOf(const Grant& grant) {
  const CachedDefinition* definition = DefinitionOf(grant);
  if (definition != nullptr && definition->record != nullptr) return definition->target_key;
  const std::string* target =
      state_.core.backoff.TargetOf({state_.lease.index, grant.epoch, grant.number});
  return target == nullptr ? std::nullopt : std::make_optional(*target);
}

void TokenRelease::NoteTarget(const PolicyState& policy, const Grant& grant, const Entry& entry) {
  TargetBackoff& backoff = state_.core.backoff;
  const bool pause = entry.paused_until_micros() > round_.micros;
  if (!entry.unreachable() && !pause && backoff.unhealthy() == 0) return;
  const TargetBackoff::Probe name{state_.lease.index, grant.epoch, grant.number};
  // A worker's completion does not show that the target is reachable: the worker may finish old
  // work while no new event arrives. For a probe it shows that the probe has arrived.
  const bool answered = entry.kind() != GrantReportRecord::RESEND &&
                        entry.kind() != GrantReportRecord::EXTENDED &&
                        (entry.attempts() != 0 || backoff.IsProbe(name));
  const auto note = [&](const std::string& target, bool asked_for_pause) {
    if (asked_for_pause) {
      backoff.OnPauseAsked(target, FromMicros(entry.paused_until_micros()));
    } else if (entry.kind() == GrantReportRecord::RETURNED) {
      backoff.OnProbeVoid(target, round_.now);
    } else if (answered && backoff.OnAnswered(target, name)) {
      state_.core.on_target_open(target);
    }
  };
  if (policy.by_key()) note(PausedKey(policy.uid, grant.source->key()), pause);
  const std::optional<std::string> target = TargetOf(grant);
  if (!target.has_value()) return;
  if (entry.unreachable()) return backoff.OnUnreachable(*target, round_.now);
  note(*target, pause && !policy.by_key());
}

// Each event has rows of its own, which repeat the attempts of its row.
void TokenRelease::AddRows(const Released& released, size_t text_bytes) {
  const size_t row_bytes = released.grant.source->event.ByteSizeLong();
  round_.entries += released.events;
  round_.bytes += released.events * (1024 + 2 * (row_bytes + text_bytes));
}

void TokenRelease::Touch(PolicyState& policy, const Grant& grant) {
  std::vector<GrantSet::Key>& touched = round_.touched[policy.uid];
  if (touched.empty() || touched.back() != grant.key()) touched.push_back(grant.key());
  state_.MakeReady(policy);
}

TokenRelease::Released TokenRelease::ReleaseTokens(PolicyState& policy, const Grant& grant,
                                                   uint64_t first, uint64_t count) {
  Released released{
      .policy = policy, .grant = grant, .ranges = policy.grants.Remove(grant.key(), first, count)};
  released.events = Sum(released.ranges, /*undelivered_only=*/false);
  if (released.events == 0) return released;
  Touch(policy, grant);
  state_.ForEachLimit(policy, *grant.source,
                      [&](PolicyState& of, const std::string& of_key, uint64_t weight) {
                        round_.touched[of.uid];
                        state_.MakeReady(of);
                        state_.OpenLimits(of.uid, of_key);
                        of.counts.set_released(of.counts.released() + released.events * weight);
                        of.released_rate.Add(released.events * weight, round_.micros);
                        of.released_last = round_.now;
                      });
  state_.core.metrics.released.Increment(released.events);
  ChangePart(state_, round_, grant.source, [&](auto& part) {
    part.set_running(part.running() - std::min(part.running(), released.events));
  });
  return released;
}

bool TokenRelease::Mark(PolicyState& policy, const Grant& grant, const Entry& entry) {
  int64_t hold = absl::ToInt64Microseconds(policy.hold_timeout());
  GrantSet::Marked marked;
  if (entry.kind() == GrantReportRecord::DELIVERED) {
    const int64_t time = entry.time_micros() != 0 ? entry.time_micros() : round_.micros;
    marked = policy.grants.Deliver(grant.key(), entry.first(), entry.count(), time, time + hold,
                                   entry.dispatch_time_micros(), entry.status());
  } else {
    if (entry.hold_micros() > 0) hold = entry.hold_micros();
    marked = policy.grants.Extend(grant.key(), entry.first(), entry.count(), round_.micros,
                                  round_.micros + hold);
  }
  state_.core.metrics.delivered.Increment(marked.delivered);
  CountDelivered(grant, marked.delivered);
  return marked.effect;
}

void TokenRelease::CountDelivered(const Grant& grant, uint64_t events) {
  if (events == 0) return;
  ChangePart(state_, round_, grant.source,
             [&](auto& part) { part.set_delivered(part.delivered() + events); });
}

bool TokenRelease::Resent(PolicyState& policy, const Grant& grant, const Entry& entry) {
  policy.grants.CountLost(grant.key(), entry.first(), entry.count(), entry.lost_claims());
  // A delivered event is at the consumer; only the end of its claim is unknown.
  const auto lost = policy.grants.Undelivered(grant.key(), entry.first(), entry.count());
  for (const HeldRange& range : lost) {
    resends_.push_back(
        {.policy = policy.uid, .grant = grant.key(), .first = range.first, .count = range.count});
  }
  return !lost.empty();
}

void TokenRelease::Ended(const Released& released, EndedRange end) {
  const std::shared_ptr<const RowSource>& source = released.grant.source;
  const bool succeeded = end.outcome == storage::v1::OUTCOME_KIND_SUCCEEDED;
  if (!succeeded) {
    const CachedDefinition* definition = DefinitionOf(released.grant);
    if (definition != nullptr && definition->record != nullptr)
      end.schedule_id = definition->record->schedule_id();
    const std::string* payload =
        source->one_off() ? state_.payloads.Find(LimitedEventKey(source->uid, source->event))
                          : nullptr;
    if (payload != nullptr) end.payload = *payload;  // CanApply and Expire have asked
    AddRows(released, end.reason.size() + end.attempt.answer.size() + end.payload.size());
  }
  TokenManagerMetrics& metrics = state_.core.metrics;
  (succeeded ? metrics.succeeded : metrics.failed).Increment(released.events);
  CountEnds(state_, round_, source, end.outcome, released.events, end.complete_micros);
  ChangePart(state_, round_, source, [&](auto& part) {
    if (succeeded) {
      part.set_succeeded(part.succeeded() + released.events);
    } else {
      part.set_failed(part.failed() + released.events);
    }
    part.set_last_end_time_micros(std::max(part.last_end_time_micros(), end.complete_micros));
  });
  for (const HeldRange& range : released.ranges) {
    EndedRange of_range =
        EndOf(&range == &released.ranges.back() ? std::move(end) : end, released.grant, range);
    ChangePart(state_, round_, source, [&](auto& part) { NoteForReport(of_range, part); });
    if (round_.ends.empty() || !Join(round_.ends.back(), of_range))
      round_.ends.push_back(std::move(of_range));
  }
}

void TokenRelease::Retry(const Released& released, const EndedRange& end, int64_t retry_at_micros,
                         int64_t tried_micros) {
  AddRows(released, end.attempt.answer.size());
  for (const HeldRange& range : released.ranges) {
    PutRetries(released, range, released.policy.keeps_tokens(),
               RetryEvent(EndOf(end, released.grant, range), tried_micros), retry_at_micros);
  }
  state_.core.metrics.retries.Increment(released.events);
  ChangePart(state_, round_, released.grant.source,
             [&](auto& part) { part.set_retries(part.retries() + released.events); });
}

void TokenRelease::Failed(const Released& released, const EndedRange& end) {
  const CachedDefinition* definition = DefinitionOf(released.grant);
  const storage::v1::EventRecord& event = released.grant.source->event;
  const uint32_t attempts = event.attempts() + 1;
  // Without its definition nothing says how it might be tried again.
  const bool known = definition != nullptr && definition->record != nullptr;
  const std::optional<absl::Time> next_occurrence =
      known ? RetryEnd(event, *definition->record, definition->timetable.get(),
                       state_.core.cache.StateIfKnown(released.grant.source->uid).get())
            : std::nullopt;
  for (const HeldRange& range : released.ranges) {
    const int64_t delivered = range.delivered_micros != 0 ? range.delivered_micros : round_.micros;
    const int64_t tried = end.attempt.begin_micros != 0 ? end.attempt.begin_micros : delivered;
    HeldRange event_range = range;
    event_range.count = 1;
    for (; event_range.first < range.first + range.count; ++event_range.first) {
      const Released one{
          .policy = released.policy, .grant = released.grant, .ranges = {event_range}, .events = 1};
      RetryPlan plan;
      if (known) {
        const storage::v1::RetryRecord& retry = definition->record->delivery().retry();
        plan = PlanRetry({.backoff = {.min = absl::Microseconds(retry.min_backoff_micros()),
                                      .max = absl::Microseconds(retry.max_backoff_micros()),
                                      .multiplier = retry.multiplier()},
                          .attempts_max = retry.max_attempts(),
                          .age_max = absl::Microseconds(retry.max_age_micros()),
                          .attempts = AttemptsOfRound(event, attempts),
                          .tried_since = TriedSince(event, FromMicros(tried)),
                          .now = round_.now,
                          .retry_after = absl::ZeroDuration(),
                          .random = state_.core.runtime.random().Next(),
                          .next_occurrence = next_occurrence});
      }
      EndedRange failed = end;
      failed.attempts = attempts;
      if (plan.at.has_value()) {
        Retry(one, failed, ToMicros(*plan.at), tried);
      } else {
        if (plan.past_next_occurrence) failed.reason = PastNextOccurrence(end.reason);
        Ended(one, std::move(failed));
      }
    }
  }
}

bool TokenRelease::TriedTooLong(const Grant& grant) {
  const CachedDefinition* definition = DefinitionOf(grant);
  if (definition == nullptr || definition->record == nullptr) return false;
  const storage::v1::RetryRecord& retry = definition->record->delivery().retry();
  return round_.now - TriedSince(grant.source->event, round_.now) >=
         absl::Microseconds(retry.max_age_micros());
}

void TokenRelease::PutRetries(const Released& released, const HeldRange& range, bool keep_tokens,
                              const storage::v1::EventRecord& event, int64_t retry_at_micros) {
  const RowSource& source = *released.grant.source;
  for (uint64_t i = range.first; i < range.first + range.count; ++i) {
    if (keep_tokens) {
      Sleep(released, range, i, event, retry_at_micros);
      continue;
    }
    kv::Mutation row =
        kv::Put(kv::ColumnFamily::kWaiting,
                WaitingKeyOf(state_.shard, released.policy.uid, source, i, retry_at_micros),
                event.SerializeAsString());
    if (source.one_off()) round_.base.mutations.push_back(RetryName(source, row.key));
    PutRow(state_, round_.base, std::move(row));
  }
}

void TokenRelease::Sleep(const Released& released, const HeldRange& range, uint64_t index,
                         storage::v1::EventRecord event, int64_t retry_at_micros) {
  PolicyState& policy = released.policy;
  const RowSource& source = *released.grant.source;
  Grant grant{.epoch = state_.lease.epoch,
              .number = ++state_.used.grants,
              .source = RowSourceOf(std::move(event), source.uid, source.occurrence, state_.shard),
              .record = released.grant.record,
              .holders = {{.first = index, .count = 1, .lost_claims = range.lost_claims}}};
  grant.record.set_grant_time_micros(round_.micros);
  grant.record.set_return_due_micros(retry_at_micros);
  grant.record.set_retry_at_micros(std::max<int64_t>(retry_at_micros, 1));
  grant.record.clear_send_before_micros();
  grant.record.clear_claim_epoch();
  grant.record.clear_claim_number();
  state_.PinCounts(*grant.source);
  ChangePart(state_, round_, grant.source,
             [&](auto& part) { part.set_running(part.running() + 1); });
  state_.ForEachLimit(policy, *grant.source,
                      [&](PolicyState& of, const std::string&, uint64_t weight) {
                        of.counts.set_granted(of.counts.granted() + weight);
                      });
  state_.core.metrics.granted.Increment();
  Touch(policy, grant);
  policy.grants.Add(std::move(grant));
  ++round_.entries;
}

void TokenRelease::Wake(PolicyState& policy, const Grant& grant) {
  const RowSource& source = *grant.source;
  const RowJudgement judged = Judge(state_, policy, source);
  if (judged.action == RowJudgement::Action::kFetch || !state_.CountsKnown(policy, source)) return;
  const uint64_t index = grant.holders.front().first;
  if (judged.action == RowJudgement::Action::kSend &&
      judged.definition->record->version() == grant.record.claimed_version() &&
      round_.now < ClosesAt(source.event) &&
      !RetryIsOver(source.event, *judged.definition->record, judged.definition->timetable.get(),
                   judged.state.get(), round_.now)) {
    policy.grants.WakeAt(grant.key(), 0);
    resends_.push_back({.policy = policy.uid, .grant = grant.key(), .first = index, .count = 1});
    return;
  }
  // As any other row that waits for its next attempt, it is judged without a token.
  const Released released = ReleaseTokens(policy, grant, index, 1);
  PutRetries(released, released.ranges[0], /*keep_tokens=*/false, source.event,
             grant.record.return_due_micros());
}

void TokenRelease::PutReturned(const Released& released, int64_t tried_micros) {
  const Grant& grant = released.grant;
  // It is another attempt that has failed to begin: the event keeps its token all the same.
  if (released.policy.keeps_tokens() && grant.source->event.attempts() > 0) {
    storage::v1::EventRecord event = grant.source->event;
    NoteTried(tried_micros, event);
    for (const HeldRange& range : released.ranges)
      PutRetries(released, range, /*keep_tokens=*/true, event, ToMicros(round_.now + kSleepsOn));
    return;
  }
  HeldRanges waiting;
  for (const HeldRange& range : released.ranges) {
    waiting.push_back(
        {.first = range.first, .count = range.count, .lost_claims = range.lost_claims});
  }
  MergeAlike(waiting);
  for (const HeldRange& range : waiting) {
    PutRow(state_, round_.base,
           kv::Put(kv::ColumnFamily::kWaiting,
                   WaitingKeyOf(state_.shard, released.policy.uid, *grant.source, range.first,
                                grant.record.return_due_micros()),
                   ReturnedEvents(*grant.source, range, tried_micros).SerializeAsString()));
  }
  if (grant.source->event.attempts() > 0) return;
  ChangePart(state_, round_, grant.source, [&](auto& part) {
    part.set_granted(part.granted() - std::min(part.granted(), released.events));
  });
}

void TokenRelease::Expire(PolicyState& policy, size_t grants_max) {
  for (const GrantSet::Key& key : policy.grants.DueBy(round_.micros, grants_max)) {
    if (round_.Full(state_.core.options.report_entries_max)) return;
    const Grant& grant = *policy.grants.Find(key);
    if (grant.sleeps()) {
      ++round_.entries;
      Wake(policy, grant);
      continue;
    }
    for (const HeldRange& range : policy.grants.Expired(key, round_.micros, /*delivered=*/false)) {
      const Released released = ReleaseTokens(policy, grant, range.first, range.count);
      ++round_.entries;
      policy.counts.set_expired(policy.counts.expired() + released.events);
      state_.core.metrics.undelivered.Increment(released.events);
      // If it was a probe, the target's answer never came.
      if (const std::optional<std::string> target = TargetOf(grant); target.has_value())
        state_.core.backoff.OnProbeVoid(*target, round_.now);
      PutReturned(released, /*tried_micros=*/0);
    }
    if (policy.hold_on_expiry()) {
      if (const uint64_t overdue = policy.grants.MarkOverdue(key, round_.micros); overdue > 0) {
        HoldEnded(policy, overdue);
        Touch(policy, grant);
      }
      continue;
    }
    const auto over = policy.grants.Expired(key, round_.micros, /*delivered=*/true);
    if (over.empty() || !KnowsForFailure(policy, grant)) continue;
    for (const HeldRange& range : over) {
      const Released released = ReleaseTokens(policy, grant, range.first, range.count);
      HoldEnded(policy, released.events);
      EndedRange end{.outcome = storage::v1::OUTCOME_KIND_FAILED,
                     .complete_micros = round_.micros,
                     .reason = kHoldExpired};
      end.attempt.kind = AttemptRecord::UNKNOWN;
      Failed(released, end);
    }
  }
}

}  // namespace escapement::token_manager
