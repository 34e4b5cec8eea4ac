#include "services/master/explain/gates.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/rate_limit.h"
#include "common/records/record_cache.h"
#include "common/records/row_judge.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "services/master/events/event_filter.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using v1::Gate;
using Kind = EventPlace::Kind;

Gate MakeGate(Gate::Kind kind, std::string detail, std::string opens) {
  Gate gate;
  gate.set_kind(kind);
  gate.set_detail(std::move(detail));
  gate.set_opens(std::move(opens));
  return gate;
}

void SetSince(absl::Time time, Gate& gate) {
  if (time > absl::UnixEpoch()) SetTimestamp(ToMicros(time), *gate.mutable_since_time());
}

void SetOpens(absl::Time time, Gate& gate) {
  if (time < absl::InfiniteFuture()) SetTimestamp(ToMicros(time), *gate.mutable_open_time());
}

std::string Count(uint64_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// The limits of a policy or of one key that are in force, as the token manager has them.
struct Limits {
  uint64_t max_concurrent = RateLimit::kUnlimited;
  double per_second = 0;
  uint64_t burst = 1;
};

template <typename Record>
Limits LimitsIn(const Record& record) {
  return {.max_concurrent =
              record.max_concurrent() == 0 ? RateLimit::kUnlimited : record.max_concurrent(),
          .per_second = record.max_per_second(),
          .burst = std::max<uint64_t>(record.burst(), 1)};
}

// True from a redrive until the end of the first attempt after it.
bool WaitsAfterRedrive(const storage::v1::EventRecord& row) {
  return row.redrives() > 0 && row.attempts() == row.attempts_before_redrive();
}

class Builder {
 public:
  Builder(const EventPlace& place, const EventFacts& facts) : place_(place), facts_(facts) {}

  std::vector<Gate> Build() {
    if (!UnsentReason(place_).empty()) return {};
    switch (place_.kind) {
      case Kind::kUnknown:
      case Kind::kEnded:
        return {};
      case Kind::kToEmit:
        AddEmission();
        AddWait();
        break;
      case Kind::kLaunch:
        AddPartition();
        AddWait();
        break;
      case Kind::kQueued:
      case Kind::kWaiting:
      case Kind::kParked:
        AddWait();
        break;
      case Kind::kClaimed:
        AddDue();
        AddSending();
        break;
      case Kind::kHeld:
        AddHeld();
        break;
    }
    return std::move(gates_);
  }

 private:
  Gate& Add(Gate gate) {
    gates_.push_back(std::move(gate));
    return gates_.back();
  }

  std::string PolicyOf(const LimitUse& use) const {
    return PolicyName{place_.row.tenant(), use.policy_id}.ToString();
  }

  // All that stands before a handler's claim.
  void AddWait() {
    AddPause();
    AddDue();
    AddOverlap();
    if (place_.throttled()) {
      AddPolicyShard();
      for (const LimitUse& use : facts_.limits.limits) AddLimit(use, /*has_tokens=*/false);
    }
    AddHandlers();
  }

  void AddPartition() {
    if (facts_.partition.owner.empty())
      Add(NoOwnerGate(absl::StrCat("partition ", place_.partition), "emitter", facts_.partition));
  }

  void AddEmission() {
    const absl::Time nominal = FromMicros(place_.row.nominal_time_micros());
    const bool due = nominal <= facts_.now;
    // The resume emits what fell due in the pause. With an overlap policy an emitter launches it.
    if (due && Paused()) {
      const storage::v1::DefinitionRecord& definition = place_.schedule->definition.record;
      if (definition.run_overlap() != storage::v1::RUN_OVERLAP_KIND_ALLOW) AddPartition();
      return;
    }
    if (facts_.clock_hold.has_value()) Add(ClockGate(*facts_.clock_hold));
    AddPartition();
    if (!due || facts_.clock_hold.has_value() || facts_.partition.owner.empty()) return;
    Gate& gate = Add(
        MakeGate(Gate::NOT_EMITTED,
                 absl::StrCat("The occurrence was due at ", TimeText(nominal), ", and the emitter ",
                              facts_.partition.owner, " has not emitted it."),
                 "The emitter emits it."));
    gate.set_reason(facts_.partition.owner);
    SetSince(nominal, gate);
  }

  bool Paused() const {
    return place_.schedule.has_value() && HeldByPause(place_.row, place_.schedule->state);
  }

  void AddPause() {
    if (!Paused()) return;
    const storage::v1::StateRecord& state = place_.schedule->state;
    Add(PausedGate(ScheduleName{state.tenant(), state.schedule_id()}.ToString(), state));
  }

  // NOT_DUE or RETRY.
  void AddDue() {
    const absl::Time due =
        place_.kind == Kind::kHeld ? FromMicros(place_.grant.retry_at_micros()) : place_.due_time;
    if (due <= facts_.now) return;
    const storage::v1::EventRecord& row = place_.row;
    if (row.attempts() == 0) {
      const bool place = due > FromMicros(row.launch_time_micros()) && row.throttle().has_window();
      Gate& gate =
          Add(MakeGate(Gate::NOT_DUE,
                       absl::StrCat(place ? "Its place in the window comes at " : "It is due at ",
                                    TimeText(due), "."),
                       absl::StrCat("Time, in ", DurationText(due - facts_.now), ".")));
      return SetOpens(due, gate);
    }
    const bool keeps = place_.kind == Kind::kHeld;
    Gate& gate =
        Add(MakeGate(Gate::RETRY,
                     absl::StrCat("Attempt ", row.attempts(), " failed",
                                  WaitsAfterRedrive(row) ? ", and the event was redriven" : "",
                                  "; the next one is due at ", TimeText(due),
                                  keeps ? ". It keeps its token." : "."),
                     absl::StrCat("Time, in ", DurationText(due - facts_.now), ".")));
    gate.set_reason(row.last_error());
    if (absl::StartsWith(row.last_error(), kSecretsClosed))
      absl::StrAppend(gate.mutable_opens(), " Handlers need the key first (--secret_keys_file).");
    SetOpens(due, gate);
    if (row.tried().empty()) return;
    const storage::v1::AttemptRecord& last = row.tried(row.tried_size() - 1);
    if (last.number() == row.attempts() && last.begin_micros() != 0)
      SetSince(FromMicros(last.begin_micros() + last.duration_micros()), gate);
  }

  void AddOverlap() {
    if (facts_.active_run.empty()) return;
    Add(MakeGate(Gate::OVERLAP,
                 absl::StrCat("The run ", facts_.active_run,
                              " is active, and the schedule's runs "
                              "must not overlap."),
                 "The run ends, or is cancelled."))
        .set_subject(facts_.active_run);
  }

  void AddPolicyShard() {
    if (facts_.policy_shard.owner.empty())
      Add(NoOwnerGate(absl::StrCat("policy shard ", place_.policy_shard), "token manager",
                      facts_.policy_shard));
  }

  // `has_tokens`: only a paused policy, a limit that has become too small, and rates hold it up.
  void AddLimit(const LimitUse& use, bool has_tokens) {
    if (!use.policy.has_value() || use.policy->paused()) {
      Gate& gate = Add(use.policy.has_value()
                           ? MakeGate(Gate::POLICY_PAUSED,
                                      absl::StrCat("The policy ", use.policy_id, " is paused."),
                                      "The policy is resumed.")
                           : MakeGate(Gate::POLICY_PAUSED,
                                      absl::StrCat("There is no policy ", use.policy_id, "."),
                                      "The policy is made again."));
      gate.set_subject(PolicyOf(use));
      if (!use.policy.has_value()) return;
      gate.set_reason(use.policy->pause_reason());
      if (use.policy->pause_time_micros() != 0)
        SetSince(FromMicros(use.policy->pause_time_micros()), gate);
    }
    AddLimits(use, /*of_key=*/false, has_tokens);
    if (use.policy->has_per_key()) AddLimits(use, /*of_key=*/true, has_tokens);
  }

  void AddLimits(const LimitUse& use, bool of_key, bool has_tokens) {
    const storage::v1::PolicyRecord& policy = *use.policy;
    const Limits base = of_key ? LimitsIn(policy.per_key()) : LimitsIn(policy);
    Limits limits = base;
    const storage::v1::OverrideRecord* concurrent = nullptr;
    const storage::v1::OverrideRecord* rate = nullptr;
    for (const storage::v1::OverrideRecord& each : policy.overrides()) {
      if (!InForce(each, facts_.now) || each.has_policy_key() != of_key ||
          (of_key && each.policy_key() != use.policy_key))
        continue;
      if (each.has_max_concurrent()) {
        limits.max_concurrent = each.max_concurrent();
        concurrent = &each;
      }
      if (each.has_max_per_second()) {
        limits.per_second = each.max_per_second();
        limits.burst = std::max<uint64_t>(each.burst(), 1);
        rate = &each;
      }
    }
    const TokenUse& tokens = of_key ? use.of_key : use.all;
    const std::string of =
        of_key ? absl::StrCat("key \"", use.policy_key, "\" of the policy ", use.policy_id)
               : absl::StrCat("policy ", use.policy_id);
    const auto has_room = [&](uint64_t max) {
      if (has_tokens) return max > 0;
      return max == RateLimit::kUnlimited || tokens.held + use.weight <= max;
    };
    if (!has_room(limits.max_concurrent)) {
      std::string detail =
          limits.max_concurrent == 0
              ? absl::StrCat("An override stops the ", of, ".")
              : absl::StrCat(tokens.held, " of ", Count(limits.max_concurrent, "token"), " of the ",
                             of, " are held",
                             use.weight > 1 ? absl::StrCat(", and it needs ", use.weight) : "",
                             ".");
      Gate& gate = Add(MakeGate(of_key ? Gate::KEY_LIMIT : Gate::POLICY_LIMIT, std::move(detail),
                                limits.max_concurrent < use.weight
                                    ? "The limit is raised, or its override ends."
                                    : "Tokens are given back, or the limit is raised."));
      gate.set_limit(static_cast<int64_t>(limits.max_concurrent));
      gate.set_held(static_cast<int64_t>(tokens.held));
      for (const Gate::Holder& holder : tokens.oldest) *gate.add_holders() = holder;
      SetQueue(use, of_key, gate);
      gate.set_override(concurrent != nullptr);
      if (concurrent != nullptr) {
        gate.set_reason(concurrent->reason());
        SetSince(FromMicros(concurrent->create_time_micros()), gate);
        // Only if the policy's own limit has room.
        if (has_room(base.max_concurrent))
          SetOpens(FromMicros(concurrent->expire_time_micros()), gate);
      }
    }
    AddRate(use, of_key, limits, rate, of);
  }

  // When the policy's limits changed last, at the latest.
  absl::Time LimitsChanged(const storage::v1::PolicyRecord& policy) const {
    int64_t changed = policy.update_time_micros();
    for (const storage::v1::OverrideRecord& each : policy.overrides()) {
      if (!InForce(each, facts_.now)) changed = std::max(changed, each.expire_time_micros());
    }
    return FromMicros(changed);
  }

  void AddRate(const LimitUse& use, bool of_key, const Limits& limits,
               const storage::v1::OverrideRecord* override, const std::string& of) {
    if (limits.per_second <= 0) return;
    const int64_t tat = of_key ? use.key_rate_time_micros : use.rate_time_micros;
    RateLimit rate(limits.per_second, limits.burst, RateTimeOf(tat));
    // The stored time may be of other limits. No more than a full burst was taken at their change.
    rate.NextAt(LimitsChanged(*use.policy));
    const absl::Time next = rate.NextAt(facts_.now);
    if (next <= facts_.now) return;
    Gate& gate = Add(MakeGate(
        of_key ? Gate::KEY_RATE : Gate::POLICY_RATE,
        absl::StrCat("The ", of, " lets ", limits.per_second, " events a second go; the next one ",
                     "may go at ", TimeText(next), "."),
        absl::StrCat("Time, in ", DurationText(next - facts_.now), ".")));
    SetQueue(use, of_key, gate);
    SetOpens(next, gate);
    gate.set_override(override != nullptr);
    if (override != nullptr) gate.set_reason(override->reason());
  }

  void SetQueue(const LimitUse& use, bool of_key, Gate& gate) const {
    gate.set_subject(PolicyOf(use));
    if (of_key) gate.set_policy_key(use.policy_key);
    gate.set_ahead(static_cast<int64_t>(use.all.ahead));
    gate.set_ahead_of_key(static_cast<int64_t>(use.of_key.ahead));
  }

  // The handlers that may get the event.
  std::set<std::string> Handlers() const {
    std::set<std::string> owners;
    const bool any = place_.throttled() && !HasClaim();
    for (size_t shard = 0; shard < facts_.queue_shards.size(); ++shard) {
      if (any || shard == place_.queue_shard) owners.insert(facts_.queue_shards[shard].owner);
    }
    owners.erase("");
    return owners;
  }

  // True if a handler has the event, or its successor will have it.
  bool HasClaim() const {
    return place_.kind == Kind::kClaimed ||
           (place_.kind == Kind::kHeld && place_.grant.retry_at_micros() == 0);
  }

  bool AddQueueShard() {
    if (!Handlers().empty()) return false;
    if (place_.throttled() && !HasClaim()) {
      LeaseView last;
      for (const LeaseView& lease : facts_.queue_shards)
        last.ended = std::max(last.ended, lease.ended);
      Add(NoOwnerGate("all queue shards", "handler", last));
    } else {
      Add(NoOwnerGate(absl::StrCat("queue shard ", place_.queue_shard), "handler",
                      facts_.queue_shards[place_.queue_shard]));
    }
    return true;
  }

  void AddHandlers() {
    if (!AddQueueShard()) AddTarget();
  }

  // Only what all handlers say that may get the event. False: the target holds nothing up.
  bool AddTarget() {
    const std::set<std::string> handlers = Handlers();
    size_t down = 0, paused = 0;
    absl::Time since = absl::InfiniteFuture(), probe = since, until = since;
    std::string error;
    std::string target;
    for (const HandlerRow& row : facts_.target) {
      if (!handlers.contains(row.handler)) continue;
      const storage::v1::TargetStateRecord& state = row.record.state();
      target = state.target_key();
      if (row.record.down_since_micros() != 0) {
        ++down;
        since = std::min(since, FromMicros(row.record.down_since_micros()));
        probe = std::min(probe, FromMicros(state.open_until_micros()));
        if (!state.last_error().empty()) error = state.last_error();
      }
      const absl::Time end = FromMicros(row.record.paused_until_micros());
      if (end > facts_.now) {
        ++paused;
        until = std::min(until, end);
      }
    }
    if (down == handlers.size()) {
      Gate& gate = Add(MakeGate(
          Gate::TARGET_DOWN,
          absl::StrCat("The target ", target, " is down", error.empty() ? "" : ": ", error, "."),
          "A probe is answered well, or somebody resets the target."));
      gate.set_subject(target);
      gate.set_reason(error);
      SetSince(since, gate);
      if (probe > facts_.now) SetOpens(probe, gate);
    }
    if (paused == handlers.size() && !place_.throttled()) {
      Gate& gate =
          Add(MakeGate(Gate::BACKPRESSURE,
                       absl::StrCat("The target ", target, " asked that nothing be sent until ",
                                    TimeText(until), "."),
                       absl::StrCat("Time, in ", DurationText(until - facts_.now),
                                    ", or somebody resets the target.")));
      gate.set_subject(target);
      gate.set_reason(target);
      SetOpens(until, gate);
      return true;
    }
    return down == handlers.size();
  }

  void AddSending() {
    if (AddQueueShard()) return;
    // A handler claims no event for a target without room, but it may be granted one.
    if (place_.kind == Kind::kHeld && AddTarget()) return;
    const std::string& owner = facts_.queue_shards[place_.queue_shard].owner;
    Gate& gate = Add(
        MakeGate(Gate::BEING_SENT,
                 absl::StrCat("The handler ", owner, " has it: attempt ", place_.row.attempts() + 1,
                              " is under way, or is about to begin."),
                 "The target answers, or the delivery timeout ends."));
    gate.set_reason(owner);
    if (place_.kind == Kind::kHeld) SetSince(FromMicros(place_.grant.grant_time_micros()), gate);
  }

  void AddHeld() {
    if (place_.grant.retry_at_micros() != 0) {  // it sleeps, with its token
      AddPause();
      AddDue();
      AddPolicyShard();
      for (const LimitUse& use : facts_.limits.limits) AddLimit(use, /*has_tokens=*/true);
      AddHandlers();
      return;
    }
    const int64_t delivered = place_.holder.delivered_time_micros();
    if (facts_.limits.given_back) return AddPolicyShard();
    if (delivered == 0 && !facts_.limits.delivered) {
      AddPolicyShard();
      return AddSending();
    }
    AddPolicyShard();
    const bool reclaims = facts_.limits.limits.empty() ||
                          !facts_.limits.limits[0].policy.has_value() ||
                          !facts_.limits.limits[0].policy->hold_on_expiry();
    Gate& gate = Add(MakeGate(Gate::HELD_BY_CONSUMER,
                              "The consumer has it, and has not given its token back.",
                              reclaims ? "The consumer gives the token back, or its hold time ends."
                                       : "The token is given back."));
    SetSince(FromMicros(delivered), gate);
    if (reclaims && place_.holder.expire_time_micros() != 0)
      SetOpens(FromMicros(place_.holder.expire_time_micros()), gate);
  }

  const EventPlace& place_;
  const EventFacts& facts_;
  std::vector<Gate> gates_;
};

}  // namespace

LeaseView ViewOf(const std::optional<lease::LeaseRow>& row, absl::Time now) {
  if (!row.has_value()) return {};
  if (!row->owner.empty() && row->end > now) return {.owner = row->owner};
  return {.ended = row->end};
}

std::string UnsentReason(const EventPlace& place) {
  const bool waits =
      place.kind == Kind::kQueued || place.kind == Kind::kWaiting || place.kind == Kind::kParked;
  if (!waits || !place.schedule.has_value()) return std::string();
  const StoredSchedule& schedule = *place.schedule;
  const bool has = HasOccurrence(&schedule.definition.timetable, place.occurrence,
                                 place.row.nominal_time_micros(), FinishOf(schedule.state));
  const RowVerdict verdict = JudgeRow(place.row, place.occurrence, &schedule.state, has);
  return verdict.action == RowVerdict::Action::kSkip ? std::string(verdict.reason) : std::string();
}

std::vector<Gate> GatesOf(const EventPlace& place, const EventFacts& facts) {
  return Builder(place, facts).Build();
}

Gate PausedGate(const std::string& schedule, const storage::v1::StateRecord& state) {
  Gate gate =
      MakeGate(Gate::SCHEDULE_PAUSED,
               absl::StrCat("The schedule is paused", state.pause_reason().empty() ? "" : ": ",
                            state.pause_reason(), "."),
               "The schedule is resumed.");
  gate.set_subject(schedule);
  gate.set_reason(state.pause_reason());
  SetSince(FromMicros(state.pause_time_micros()), gate);
  return gate;
}

Gate NoOwnerGate(absl::string_view subject, absl::string_view service, const LeaseView& lease) {
  Gate gate =
      MakeGate(Gate::NO_OWNER,
               absl::StrCat("No ", service, " holds ", subject,
                            lease.ended > absl::UnixEpoch() ? " since " : "",
                            lease.ended > absl::UnixEpoch() ? TimeText(lease.ended) : "", "."),
               absl::StrCat("A ", service, " takes it: at least one must run."));
  gate.set_subject(std::string(subject));
  SetSince(lease.ended, gate);
  return gate;
}

Gate ClockGate(absl::Duration disagreement) {
  return MakeGate(
      Gate::CLOCK_HELD,
      absl::StrCat("Emission is held: the wall clock of the store is ahead of its time by ",
                   DurationText(disagreement), "."),
      "The clock is set right, or an operator confirms it: escctl store clock --confirm.");
}

namespace {

class PhaseBuilder {
 public:
  // Adds the phase, unless one of its ends is not known or it has no length.
  void Add(v1::Phase::Kind kind, int64_t begin, int64_t end, absl::string_view what) {
    if (begin == 0 || end == 0 || end <= begin) return;
    v1::Phase& phase = phases.emplace_back();
    phase.set_kind(kind);
    SetTimestamp(begin, *phase.mutable_start_time());
    SetDuration(end - begin, *phase.mutable_duration());
    phase.set_detail(absl::StrCat(DurationText(absl::Microseconds(end - begin)), " ", what, "."));
  }
  std::vector<v1::Phase> phases;
};

// The attempts of an event, as far as they are recorded. 0: not known.
struct AttemptTimes {
  int64_t first_begin = 0;
  int64_t last_begin = 0;
  int64_t last_end = 0;
  uint32_t count = 0;
  bool redriven = false;
};

// Where the time from the first attempt to the last one went.
std::string RetriesText(const AttemptTimes& times) {
  const uint32_t failed = times.count - 1;
  return absl::StrCat("for ", Count(failed, "failed attempt"),
                      failed == 1 ? " and the wait after it" : " and the waits after them",
                      times.redriven ? "; the event was redriven" : "");
}

AttemptTimes TimesOf(const storage::v1::DoneRecord& done, uint64_t position) {
  const v1::Event shown = ShowEndedEvent("", done, position);
  AttemptTimes times{.count = done.attempts(), .redriven = done.redrives() > 0};
  for (const v1::Attempt& attempt : shown.recent_attempts()) {
    const int64_t begin =
        attempt.has_start_time() ? TimestampMicros(attempt.start_time()).value_or(0) : 0;
    // A record keeps only the last attempts.
    if (attempt.number() == 1) times.first_begin = begin;
    if (attempt.number() != shown.attempts()) continue;
    times.last_begin = begin;
    if (begin != 0 && attempt.has_duration()) {
      times.last_end = begin + absl::ToInt64Microseconds(
                                   ToDuration(attempt.duration()).value_or(absl::ZeroDuration()));
    }
  }
  return times;
}

AttemptTimes TimesOf(const EventPlace& held) {
  AttemptTimes times{.last_begin = held.holder.dispatch_time_micros(),
                     .last_end = held.holder.delivered_time_micros(),
                     .count = held.row.attempts() + 1,
                     .redriven = held.row.redrives() > 0};
  const auto& tried = held.row.tried();
  if (times.count == 1) times.first_begin = times.last_begin;
  if (!tried.empty() && tried[0].number() == 1) times.first_begin = tried[0].begin_micros();
  return times;
}

}  // namespace

std::vector<v1::Phase> PhasesOf(const EventPlace& place) {
  PhaseBuilder builder;
  const bool held = place.kind == Kind::kHeld && place.grant.retry_at_micros() == 0 &&
                    place.holder.delivered_time_micros() != 0;
  if (place.kind != Kind::kEnded && !held) return {};
  const storage::v1::DoneRecord& done = place.done;
  if (!held && (done.run_skipped() || done.attempts() == 0)) return {};
  const int64_t nominal = held ? place.row.nominal_time_micros() : done.nominal_time_micros();
  const int64_t launch = held ? place.row.launch_time_micros() : done.launch_time_micros();
  const AttemptTimes times = held ? TimesOf(place) : TimesOf(done, place.position);
  // The launch time of a one-off event is its creation, if that was later than it was due. That of
  // a run may have jitter, which is no time of emission.
  int64_t emitted = place.one_off() ? launch : 0;
  if (place.run.has_value()) emitted = place.run->emit_time_micros();
  builder.Add(
      v1::Phase::EMISSION, nominal, emitted,
      place.one_off() ? "after its due time it was created" : "after its due time it was emitted");
  const int64_t ready = std::max(launch, emitted);
  int64_t queued = ready;
  if (held && times.count == 1) {
    queued = std::max(ready, place.grant.grant_time_micros());
    builder.Add(v1::Phase::TOKEN, ready, queued, "until it got its token");
  }
  builder.Add(v1::Phase::QUEUE, queued, times.first_begin, "until its first attempt");
  if (times.count > 1) {
    builder.Add(v1::Phase::RETRIES, times.first_begin, times.last_begin, RetriesText(times));
  }
  builder.Add(v1::Phase::TARGET, times.last_begin, times.last_end, "for the last attempt");
  if (!held && done.count() <= 1 && done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED) {
    builder.Add(v1::Phase::CONSUMER, times.last_end, done.complete_time_micros(),
                "until the consumer gave its token back");
  }
  return std::move(builder.phases);
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

std::string DurationText(absl::Duration duration) {
  const auto whole = [&](absl::Duration unit) {
    return absl::IDivDuration(duration, unit, &duration);
  };
  if (duration < absl::Seconds(1))
    return absl::StrCat(
        std::max<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))),
                          0),
        " ms");
  if (duration < absl::Minutes(1))
    return absl::StrCat(absl::ToDoubleSeconds(absl::Trunc(duration, absl::Milliseconds(100))),
                        " s");
  const int64_t days = whole(absl::Hours(24)), hours = whole(absl::Hours(1)),
                minutes = whole(absl::Minutes(1)), seconds = whole(absl::Seconds(1));
  if (days > 0) return absl::StrCat(days, " d ", hours, " h");
  if (hours > 0) return absl::StrCat(hours, " h ", minutes, " min");
  return absl::StrCat(minutes, " min ", seconds, " s");
}

}  // namespace escapement::master
