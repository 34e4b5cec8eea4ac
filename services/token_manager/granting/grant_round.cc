#include "services/token_manager/granting/grant_round.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/proto_time.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/granting/token_release.h"
#include "services/token_manager/shard/record_reader.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {
namespace {

constexpr uint64_t kGrantEventsMax = 64;              // events of one grant
constexpr uint64_t kGrantEventsMaxOnDelivery = 1024;  // nobody gives those back one by one
constexpr uint64_t kVisitEventsMax = 1024;  // events of one policy before the next one's turn
constexpr absl::Duration kKeyAgain = absl::Seconds(1);
// Tokens are kept back only for an event that no rate and no pause holds up for longer.
constexpr absl::Duration kHopeWithin = absl::Seconds(10);
// A full limit of which a token came back within this time is hoped for.
constexpr absl::Duration kHopeFor = absl::Minutes(10);
constexpr size_t kVisitsMax = 10'000;  // visits of one round
constexpr size_t kFetchingMax = 2000;  // schedules of one policy
// Policies of the shard with a record being read. More of them would be judged again after each
// read.
constexpr size_t kPoliciesFetchingMax = 2000;
// A policy that grants nothing judges so many groups in one turn, pauses before the next turn
// (10,000 groups take two seconds), and begins again after a longer pause.
constexpr size_t kJudgedOnlyMax = 256;
constexpr absl::Duration kJudgeNextGroups = absl::Milliseconds(50);
constexpr absl::Duration kJudgeAgain = absl::Seconds(5);
// How often rows that wait long for their window are judged.
constexpr absl::Duration kLookEvery = absl::Seconds(60);
constexpr absl::Duration kLookAgain = absl::Seconds(1);  // some go, or something is being read

}  // namespace

GrantRound::GrantRound(PolicyShardState& state, RowActions& actions)
    : state_(state),
      actions_(actions),
      events_max_(Perturb(state.core.runtime, Site::kTokensGrantOfOne)
                      ? 1
                      : state.core.options.grant_events_max),
      draft_(state) {}

bool GrantRound::Full() const {
  return draft_.events() >= events_max_ || draft_.grants() >= kGrantRowsMax;
}

void GrantRound::Build(Round& round, std::deque<Resend>& resends) {
  ReviewReservations(round.now);
  WakeOpened();
  std::deque<Resend> waiting = std::exchange(resends, {});
  for (; !waiting.empty(); waiting.pop_front()) {
    if (Full() || !Resume(waiting.front(), round)) resends.push_back(waiting.front());
  }
  for (size_t visits = std::min(state_.ready(), kVisitsMax);
       visits > 0 && state_.ready() > 0 && !Full() && !actions_.full(); --visits) {
    PolicyState* policy = state_.TakeReady();
    if (policy == nullptr) continue;
    if (state_.awaiting() >= kPoliciesFetchingMax) {
      awaits_records_ = true;
      state_.MakeReady(*policy);
      break;
    }
    const Visited visited = Visit(*policy, round);
    state_.Plan(*policy);
    if (visited != Visited::kDone) state_.MakeReady(*policy);
    if (no_room_) break;
    // A policy that the commit changes must not be read again before the commit has applied.
    if (visited == Visited::kDone && !round.touched.contains(policy->uid))
      state_.DropIfIdle(*policy);
  }
}

GrantRound::Visited GrantRound::Visit(PolicyState& policy, const Round& round) {
  policy.grant_next = absl::InfiniteFuture();
  JudgeLongWaiting(policy, round);
  if (policy.waiting.queue().empty() || !policy.known) return Visited::kDone;
  JudgeChanged(policy, round);
  if (!policy.grants_tokens()) {
    JudgeOnly(policy, round);
    return Visited::kDone;
  }
  const absl::Time now = round.now + kGrantLead;
  const auto passed_over = [&](const QueuedSlice& first) {
    return PassedOver(policy, first, round.now);
  };
  policy.waiting.queue().BeginRound();
  uint64_t budget = Perturb(state_.core.runtime, Site::kTokensVisitOfOne) ? 1 : kVisitEventsMax;
  std::string refused_row;
  while (!Full() && !actions_.full()) {
    const uint64_t free = policy.FreeTokens();
    if (free == 0) {  // until one is given back
      JudgeOnly(policy, round);
      return Visited::kDone;
    }
    const uint64_t allowed = policy.rate.Allowed(round.now);
    if (allowed == 0) {
      JudgeOnly(policy, round);
      policy.grant_next = std::min(policy.grant_next, policy.rate.NextAt(round.now));
      return Visited::kDone;
    }
    if (budget == 0) return Visited::kMore;
    const uint64_t tokens = std::min({free, allowed, budget});
    const std::optional<FairQueue::Turn> turn =
        policy.waiting.queue().Next(now, policy.fairness(), tokens, passed_over);
    if (!turn.has_value()) {
      // A group that stands aside for a full limit has no turn.
      if (policy.waiting.queue().groups_aside() > 0) JudgeOnly(policy, round);
      const std::optional<absl::Time> next = policy.waiting.queue().NextEligible(now);
      if (next.has_value()) policy.grant_next = std::min(policy.grant_next, *next - kGrantLead);
      return Visited::kDone;
    }
    const std::string key = turn->slice->key;
    const uint64_t taken = Take(policy, *turn, tokens, round);
    if (no_room_) return Visited::kMore;
    budget -= std::min(budget, taken);
    // A row that is not granted now stands aside or has left the queue.
    if (taken == 0 && key == std::exchange(refused_row, key)) return Visited::kDone;
    if (policy.fetching.size() > kFetchingMax) return Visited::kDone;
  }
  return Visited::kMore;
}

// Null: not known.
std::shared_ptr<const CachedDefinition> GrantRound::DefinitionOf(const RowSource& row) const {
  RecordCache& cache = state_.core.cache;
  if (const std::optional<Uid> delivery = DeliveryHashOf(row.event))
    return cache.DefinitionIfKnown(*delivery, 0);
  const auto state = cache.StateIfKnown(row.uid);
  if (state == nullptr || !state->record.has_value()) return nullptr;
  const auto definition = cache.Definition(row.uid, state->record->version());
  return definition == nullptr || definition->record == nullptr ? nullptr : definition;
}

std::string GrantRound::PassedOver(PolicyState& policy, const QueuedSlice& first, absl::Time now) {
  if (policy.fetching.contains(first.group)) return kBeingRead;
  const TargetBackoff& backoff = state_.core.backoff;
  if (backoff.unhealthy() == 0 && !policy.by_key() && !first.several && state_.reservations.empty())
    return std::string();
  const WaitingRow* row = policy.waiting.RowOf(first.key);
  const auto definition = row == nullptr ? nullptr : DefinitionOf(*row->source());
  if (definition == nullptr) return std::string();  // Take has it read
  const RowSource& source = *row->source();
  const GroupKey group{first.priority, first.group};
  // A row whose schedule has other limits by now is to move: it takes its turn.
  const bool moves =
      !source.one_off() && !SameLimits(definition->record->throttle(), source.event.throttle());
  if (!moves) {
    Room room = RoomFor(policy, row->source(), group, now);
    if (room.closed.has_value() && source.several() && now - EligibleAt(first) >= kAgeingStep &&
        MayHope(policy, source, now) &&
        state_.reservations.Add({policy.uid, group, EligibleAt(first), row->source()})) {
      room = RoomFor(policy, row->source(), group, now);  // less is kept from it now
    }
    if (room.awaits_policy) {
      AwaitRecords(state_, policy, first.group);
      return kBeingRead;
    }
    if (room.closed.has_value()) {
      state_.gates.Close(*room.closed, policy.uid);
      return ReasonOf(*room.closed);
    }
  }
  const auto closed = [&](const std::string& name) {
    if (backoff.Allowed(name, now) > 0) return false;
    state_.PassOver(policy, name);
    return true;
  };
  if (policy.by_key() && !moves) {
    std::string paused = PausedKey(policy.uid, source.key());
    if (closed(paused)) return paused;
  }
  return closed(definition->target_key) ? definition->target_key : std::string();
}

GrantRound::Room GrantRound::RoomFor(PolicyState& policy,
                                     const std::shared_ptr<const RowSource>& source,
                                     const GroupKey& group, absl::Time now) {
  Room room;
  const auto fit = [&](uint64_t free, const LimitName& limit, uint64_t weight) {
    if (free == RateLimit::kUnlimited) return free;
    return (free - std::min(free, state_.reservations.KeptFrom(limit, policy.uid, group))) / weight;
  };
  state_.ForEachLimit(policy, *source,
                      [&](PolicyState& of, const std::string& key, uint64_t weight) {
                        if (room.closed.has_value() || room.awaits_policy) return;
                        if (!of.known) {
                          room.awaits_policy = true;
                          return;
                        }
                        const bool own = &of == &policy;
                        LimitName limit{of.uid};
                        if (!own && !of.grants_tokens()) {
                          room.closed = limit;
                          return;
                        }
                        uint64_t events = fit(of.FreeTokens(), limit, weight);
                        absl::Time opens = absl::InfiniteFuture();
                        if (!own && events > 0) {  // Visit has asked the policy's own rate
                          events = std::min(events, of.rate.Allowed(now));
                          if (events == 0) opens = of.rate.NextAt(now);
                        }
                        if (events > 0 && of.by_key()) {
                          limit.key = key;
                          const Limits& limits = of.LimitsOf(key);
                          events = std::min(events, fit(of.FreeTokensOf(key), limit, weight));
                          if (events > 0) {
                            events = std::min(events, of.key_rates.Allowed(key, limits, now));
                            if (events == 0) opens = of.key_rates.NextAt(key, limits, now);
                          }
                        }
                        room.events = std::min(room.events, events);
                        if (events > 0) return;
                        room.closed = limit;
                        if (opens == absl::InfiniteFuture()) return;
                        of.closed.insert({opens, limit.key});
                        state_.Plan(of);
                      });
  return room;
}

// None of the limits is closed for good, as far as is known: tokens of those without room come
// back. And neither a rate nor a pause holds it up for long.
bool GrantRound::MayHope(PolicyState& policy, const RowSource& source, absl::Time now) {
  const absl::Time soon = now + kHopeWithin;
  const TargetBackoff& backoff = state_.core.backoff;
  const auto definition = DefinitionOf(source);
  bool hope = definition == nullptr || backoff.Allowed(definition->target_key, soon) > 0;
  if (policy.by_key()) hope &= backoff.Allowed(PausedKey(policy.uid, source.key()), soon) > 0;
  state_.ForEachLimit(
      policy, source, [&](PolicyState& of, const std::string& key, uint64_t weight) {
        const uint64_t free =
            of.by_key() ? std::min(of.FreeTokens(), of.FreeTokensOf(key)) : of.FreeTokens();
        hope &= of.grants_tokens() && of.limits().max_concurrent >= weight &&
                of.LimitsOf(key).max_concurrent >= weight && of.rate.NextAt(now) <= soon &&
                of.key_rates.NextAt(key, of.LimitsOf(key), now) <= soon &&
                (free >= weight || now - of.released_last < kHopeFor);
      });
  return hope;
}

void GrantRound::ReviewReservations(absl::Time now) {
  if (state_.reservations.empty()) return;
  const std::vector<Reservations::Reserved> all = state_.reservations.all();
  for (const Reservations::Reserved& each : all) {
    PolicyState* policy = state_.Find(each.policy);
    const RowGroup* group = policy == nullptr ? nullptr : policy->waiting.GroupOf(each.group);
    const bool waits = group != nullptr && !group->rows().empty() &&
                       SameLimits(group->rows().begin()->second.source()->event.throttle(),
                                  each.source->event.throttle());
    if (waits && MayHope(*policy, *each.source, now)) continue;
    if (const auto limits = state_.reservations.Remove(each.policy, each.group))
      state_.OpenLimits(*limits);
  }
}

void GrantRound::WakeOpened() {
  if (!state_.gates.open()) return;
  const auto has_room = [&](const LimitName& limit) {
    PolicyState* policy = state_.Find(limit.policy);
    if (policy == nullptr || !policy->grants_tokens()) return false;
    return (limit.key.has_value() ? policy->FreeTokensOf(*limit.key) : policy->FreeTokens()) > 0;
  };
  state_.gates.Wake(has_room, [&](const Uid& uid, const std::string& reason, size_t max) {
    PolicyState* policy = state_.Find(uid);
    if (policy == nullptr) return LimitGates::Woken();
    const FairQueue::Woken woken = policy->waiting.queue().Wake(reason, max);
    state_.MakeReady(*policy);
    return LimitGates::Woken{.groups = woken.groups, .more = woken.more};
  });
}

uint64_t GrantRound::Take(PolicyState& policy, const FairQueue::Turn& turn, uint64_t tokens,
                          const Round& round) {
  const std::string key = turn.slice->key;
  uint64_t count = std::min(turn.count, tokens);
  WaitingRow* row = policy.waiting.RowOf(key);
  if (row == nullptr) {  // not so: the queue has what is in memory
    policy.waiting.queue().Remove(key);
    return 0;
  }
  const RowJudgement judged = JudgeQueueRow(state_.core.cache, row->source()->uid,
                                            row->source()->occurrence, row->source()->event);
  if (judged.action == RowJudgement::Action::kFetch) {
    AwaitRecords(state_, policy, row->source()->group);
    return 0;
  }
  const absl::Time superseded_ends_at = SupersededEndsAt(row->source()->event);
  if (judged.superseded() && round.now < superseded_ends_at) {
    policy.waiting.Postpone(key, *row, superseded_ends_at);
    return 0;
  }
  if (!actions_.CountsKnown(policy, *row)) return 0;
  if (judged.action != RowJudgement::Action::kSend) {
    // A row with a grant of this very round must wait until that grant is known to have applied.
    if (!row->busy()) actions_.Add(policy, key, *row, judged);
    return 0;
  }
  if (RetryIsOver(row->source()->event, *judged.definition->record,
                  judged.definition->timetable.get(), judged.state.get(), round.now)) {
    if (!row->busy()) actions_.Fail(policy, key, *row, judged);
    return 0;
  }
  const std::string& target = judged.definition->target_key;
  const std::shared_ptr<const RowSource> source = row->source();
  const GroupKey group{row->priority(), source->group};
  uint64_t by_limits = RateLimit::kUnlimited;
  if (policy.by_key() || source->several() || !state_.reservations.empty()) {
    const Room room = RoomFor(policy, source, group, round.now);
    by_limits = room.closed.has_value() || room.awaits_policy ? 0 : room.events;
    if (policy.by_key()) {
      by_limits = std::min(
          by_limits, state_.core.backoff.Allowed(PausedKey(policy.uid, source->key()), round.now));
    }
  }
  if (by_limits == 0) {  // the definition has just been read
    policy.waiting.Postpone(key, *row, round.now + kKeyAgain);
    return 0;
  }
  count = std::min(
      {count, state_.core.backoff.Allowed(target, round.now), by_limits,
       events_max_ - draft_.events(),
       row->source()->event.throttle().on_release() ? kGrantEventsMax : kGrantEventsMaxOnDelivery});
  if (count == 0) {
    state_.PassOver(policy, target);
    return 0;
  }
  GrantDraft::Claim* claim = draft_.OpenClaim(round.now);
  if (claim == nullptr) {
    no_room_ = true;
    return 0;
  }
  count = std::min(count, state_.core.queue_shards.Room(claim->queue_shard, round.now));
  state_.core.metrics.wait_seconds.Observe(
      std::max(0.0, absl::ToDoubleSeconds(round.now - turn.slice->due)), count);
  draft_.Make(policy, key, *row, count, judged, *claim, round);
  if (const auto limits = state_.reservations.Remove(policy.uid, group)) state_.OpenLimits(*limits);
  return count;
}

absl::Time GrantRound::MayRetryAt(PolicyState& policy, const Grant& grant,
                                  const std::string& target, absl::Time now) const {
  const TargetBackoff& backoff = state_.core.backoff;
  absl::Time at = now;
  if (backoff.Allowed(target, now) == 0 ||
      (policy.by_key() && backoff.Allowed(PausedKey(policy.uid, grant.source->key()), now) == 0))
    at = now + kSleepsOn;
  state_.ForEachLimit(
      policy, *grant.source, [&](PolicyState& of, const std::string& key, uint64_t /*weight*/) {
        const Limits& of_key = of.LimitsOf(key);
        if (!of.grants_tokens() || of.limits().max_concurrent == 0 || of_key.max_concurrent == 0)
          at = std::max(at, now + kSleepsOn);
        at = std::max({at, of.rate.NextAt(now), of.key_rates.NextAt(key, of_key, now)});
      });
  return at;
}

bool GrantRound::Resume(const Resend& resend, const Round& round) {
  PolicyState* policy = state_.Find(resend.policy);
  const Grant* grant = policy == nullptr ? nullptr : policy->grants.Find(resend.grant);
  if (grant == nullptr) return true;
  const RowJudgement judged = JudgeQueueRow(state_.core.cache, grant->source->uid,
                                            grant->source->occurrence, grant->source->event);
  if (judged.action == RowJudgement::Action::kFetch) {
    AwaitRecords(state_, *policy, grant->source->group);
    return false;
  }
  // The consumer may have it, so its token is not another's yet: the consumer's word ends it, or
  // the silence of all.
  if (judged.action != RowJudgement::Action::kSend ||
      judged.definition->record->version() != grant->claimed_version) {
    // One that sleeps is judged again, and waits without its token then.
    if (grant->retry_micros != 0) policy->grants.WakeAt(resend.grant, round.micros);
    state_.Plan(*policy);
    return true;
  }
  if (grant->retry_micros != 0) {
    const absl::Time at = MayRetryAt(*policy, *grant, judged.definition->target_key, round.now);
    if (at > round.now) {
      policy->grants.WakeAt(resend.grant, ToMicros(at));
      state_.Plan(*policy);
      return true;
    }
  }
  for (const HeldRange& range : policy->grants.Held(resend.grant, resend.first, resend.count)) {
    if (range.delivered_micros != 0) continue;
    GrantDraft::Claim* claim = draft_.OpenClaim(round.now, grant->queue_shard);
    if (claim == nullptr) {
      no_room_ = true;
      return false;
    }
    draft_.MakeAgain(*policy, resend.grant, range, judged, *claim, round);
  }
  state_.Plan(*policy);
  return true;
}

// A policy that is not there, is paused, has no token free or has used up its rate grants nothing,
// and one with limits for each key may grant nothing to a key. Rows of schedules that are elsewhere
// by now, that have another priority or are gone must not wait for it.
void GrantRound::JudgeOnly(PolicyState& policy, const Round& round) {
  if (round.now < policy.judge_next) {
    policy.grant_next = policy.judge_next;
    return;
  }
  const size_t groups = std::min(policy.waiting.groups().size(), kJudgedOnlyMax);
  auto next = policy.waiting.groups().upper_bound(policy.judged_to);
  bool again = false;  // something goes, or is being read
  bool all = groups == policy.waiting.groups().size();
  for (size_t judged_only = 0; judged_only < groups && !actions_.full(); ++judged_only) {
    if (next == policy.waiting.groups().end()) {
      next = policy.waiting.groups().begin();
      all = true;
    }
    policy.judged_to = next->first;
    again |= JudgeGroup(policy, (next++)->second, round, /*whole=*/false);
  }
  policy.grant_next = round.now + (all ? kJudgeAgain : kJudgeNextGroups);
  policy.judge_next = again ? round.now : policy.grant_next;
}

void GrantRound::JudgeChanged(PolicyState& policy, const Round& round) {
  std::erase_if(policy.changed, [&](const Uid& schedule) {
    bool again = false;  // something goes, or is being read
    for (const RowGroup* group : policy.waiting.GroupsOf(schedule))
      again |= JudgeGroup(policy, *group, round,
                          /*whole=*/policy.by_key() || policy.waiting.queue().groups_aside() > 0);
    return !again;
  });
}

// A window may be months away, and its schedule be another one, or gone, long before.
void GrantRound::JudgeLongWaiting(PolicyState& policy, const Round& round) {
  for (const GroupKey& key : policy.waiting.TakeLooks(round.now)) {
    const bool again = JudgeGroup(policy, *policy.waiting.GroupOf(key), round, /*whole=*/true);
    policy.waiting.LookLater(key, round.now + (again ? kLookAgain : kLookEvery));
  }
}

namespace {

// Its row need not wait for its due time: nothing that happens until then changes what becomes of
// it.
bool MayGoBeforeDue(const RowJudgement& judged) {
  return judged.action == RowJudgement::Action::kMove ||
         (judged.action == RowJudgement::Action::kSkip && !judged.superseded());
}

// Rows of a run that is cancelled may stand behind rows of other runs that stay.
bool CancelsSingleRuns(const RowJudgement& judged) {
  return judged.state != nullptr && judged.state->record.has_value() &&
         !judged.state->record->cancelled_runs().empty();
}

}  // namespace

// Up to the first row that may stay, or the whole group; where CancelRun has cancelled runs, past
// such rows.
bool GrantRound::JudgeGroup(PolicyState& policy, const RowGroup& group, const Round& round,
                            bool whole) {
  bool any = false;
  for (const auto& [key, row] : group.rows()) {
    if (row.busy()) continue;
    if (actions_.full()) break;
    // Schedules of rows to come are not read for this alone.
    const bool due = row.due() <= round.now;
    if (!due && state_.core.cache.StateIfKnown(row.source()->uid) == nullptr) break;
    const RowJudgement judged = JudgeQueueRow(state_.core.cache, row.source()->uid,
                                              row.source()->occurrence, row.source()->event);
    if (judged.action == RowJudgement::Action::kFetch) {
      AwaitRecords(state_, policy, row.source()->group);
      return true;
    }
    if (judged.action == RowJudgement::Action::kSend ||
        (judged.superseded() && round.now < SupersededEndsAt(row.source()->event)) ||
        (!due && !MayGoBeforeDue(judged))) {
      if (whole || CancelsSingleRuns(judged)) continue;
      break;
    }
    any = true;
    if (!actions_.CountsKnown(policy, row)) break;
    actions_.Add(policy, key, *policy.waiting.RowOf(key), judged);
  }
  return any;
}

}  // namespace escapement::token_manager
