#include "services/token_manager/granting/grant_round.h"

#include <algorithm>
#include <utility>

#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/granting/token_release.h"
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

// The tokens that the policy and the key allow at once.
uint64_t LargestOf(const PolicyState& policy, const std::string& key) {
  return std::min(policy.limits().max_concurrent, policy.LimitsOf(key).max_concurrent);
}

// When the rates of both allow an event.
absl::Time RatesOpenAt(PolicyState& policy, const std::string& key, absl::Time now) {
  return std::max(policy.rate.NextAt(now), policy.RateOf(key).NextAt(now));
}

}  // namespace

GrantRound::GrantRound(PolicyShardState& state, RowActions& actions, absl::Time now)
    : state_(state),
      actions_(actions),
      now_(now),
      events_max_(Perturb(state.core.runtime, Site::kTokensGrantOfOne)
                      ? 1
                      : state.core.options.grant_events_max),
      draft_(state, now) {}

bool GrantRound::Full() const {
  return draft_.events() >= events_max_ || draft_.grants() >= kGrantRowsMax;
}

void GrantRound::Build(Round& round, std::deque<Resend>& resends) {
  ReviewReservations();
  WakeOpened();
  std::erase_if(resends, [&](const Resend& each) { return !Full() && Resume(each); });
  for (size_t visits = std::min(state_.ready(), kVisitsMax);
       visits > 0 && state_.ready() > 0 && !Full() && !actions_.full(); --visits) {
    PolicyState* policy = state_.TakeReady();
    if (policy == nullptr) continue;
    if (state_.awaiting() >= kPoliciesFetchingMax) {
      awaits_records_ = true;
      state_.MakeReady(*policy);
      break;
    }
    const bool more = Visit(*policy);
    state_.Plan(*policy);
    if (more) state_.MakeReady(*policy);
    if (no_room_) break;
    // A policy that the commit changes must not be read again before the commit has applied.
    if (!more && !round.touched.contains(policy->uid)) state_.DropIfIdle(*policy);
  }
}

bool GrantRound::Visit(PolicyState& policy) {
  policy.grant_next = absl::InfiniteFuture();
  JudgeLongWaiting(policy);
  FairQueue& queue = policy.waiting.queue();
  if (queue.empty() || !policy.known) return false;
  JudgeChanged(policy);
  if (!policy.grants_tokens()) {
    JudgeOnly(policy);
    return false;
  }
  const absl::Time now = now_ + kGrantLead;
  const auto passed_over = [&](const QueuedSlice& first) { return PassedOver(policy, first); };
  queue.BeginRound();
  uint64_t budget = Perturb(state_.core.runtime, Site::kTokensVisitOfOne) ? 1 : kVisitEventsMax;
  const WaitingRow* refused_row = nullptr;
  while (!Full() && !actions_.full()) {
    const uint64_t free = policy.FreeTokens();
    const uint64_t allowed = free > 0 ? policy.rate.Allowed(now_) : 0;
    if (allowed == 0) {
      JudgeOnly(policy);
      // Without a free token it waits until one is given back.
      if (free > 0) policy.grant_next = std::min(policy.grant_next, policy.rate.NextAt(now_));
      return false;
    }
    if (budget == 0) return true;
    const uint64_t tokens = std::min({free, allowed, budget});
    const std::optional<FairQueue::Turn> turn =
        queue.Next(now, policy.fairness(), tokens, passed_over);
    if (!turn.has_value()) {
      // A group that stands aside for a full limit has no turn.
      if (queue.groups_aside() > 0) JudgeOnly(policy);
      policy.grant_next = std::min(policy.grant_next, queue.NextEligible(now) - kGrantLead);
      return false;
    }
    const WaitingRow* row = turn->slice->row;
    const uint64_t taken = Take(policy, *turn, tokens);
    if (no_room_) return true;
    budget -= std::min(budget, taken);
    // A row that is not granted now stands aside or has left the queue.
    if (taken == 0 && row == std::exchange(refused_row, row)) return false;
    if (policy.fetching.size() > kFetchingMax) return false;
  }
  return true;
}

std::shared_ptr<const CachedDefinition> GrantRound::DefinitionOf(const RowSource& row) const {
  RecordCache& cache = state_.core.cache;
  if (const std::optional<Uid> delivery = DeliveryHashOf(row.event))
    return cache.DefinitionIfKnown(*delivery, 0);
  const auto state = cache.StateIfKnown(row.uid);
  if (state == nullptr || !state->record.has_value()) return nullptr;
  const auto definition = cache.Definition(row.uid, state->record->version());
  return definition == nullptr || definition->record == nullptr ? nullptr : definition;
}

std::string GrantRound::PassedOver(PolicyState& policy, const QueuedSlice& first) {
  asked_.reset();
  if (policy.fetching.contains(first.group.second)) return kBeingRead;
  const TargetBackoff& backoff = state_.core.backoff;
  const std::shared_ptr<const RowSource>& row = first.row->source();
  const RowSource& source = *row;
  if (backoff.unhealthy() == 0 && !NeedsMore(policy, source)) return std::string();
  const auto definition = DefinitionOf(source);
  if (definition == nullptr) return std::string();  // Take has it read
  // A row whose schedule has other limits by now is to move: it takes its turn.
  const bool moves =
      !source.one_off() && !SameLimits(definition->record->throttle(), source.event.throttle());
  if (!moves) {
    Room room = RoomFor(policy, source, first.group);
    if (room.closed.has_value() && source.several() && now_ - EligibleAt(first) >= kAgeingStep &&
        MayHope(policy, source) &&
        state_.reservations.Add({policy.uid, first.group}, {EligibleAt(first), row})) {
      room = RoomFor(policy, source, first.group);  // less is kept from it now
    }
    if (room.closed.has_value()) {
      state_.gates.Close(*room.closed, policy.uid);
      return ReasonOf(*room.closed);
    }
    if (room.events == 0) {
      AwaitRecords(state_, policy, first.group.second);
      return kBeingRead;
    }
    asked_ = room.events;
  }
  const auto closed = [&](const std::string& name) {
    if (backoff.Allowed(name, now_) > 0) return false;
    state_.PassOver(policy, name);
    return true;
  };
  if (policy.by_key() && !moves) {
    std::string paused = PausedKey(policy.uid, source.key());
    if (closed(paused)) return paused;
  }
  return closed(definition->target_key) ? definition->target_key : std::string();
}

bool GrantRound::NeedsMore(const PolicyState& policy, const RowSource& source) const {
  return policy.by_key() || source.several() || !state_.reservations.empty();
}

GrantRound::Room GrantRound::RoomFor(PolicyState& policy, const RowSource& source,
                                     const GroupKey& group) {
  Room room;
  const auto ask = [&](PolicyState& of, const std::string& key, uint64_t weight) {
    if (room.events == 0) return;
    if (!of.known) {
      room.events = 0;
      return;
    }
    const bool own = &of == &policy;  // Visit has asked it, and its rate
    LimitName limit{of.uid};
    uint64_t events = own || of.grants_tokens() ? RateLimit::kUnlimited : 0;
    absl::Time opens = absl::InfiniteFuture();
    const auto ask_tokens = [&](uint64_t free) {
      if (events == 0 || free == RateLimit::kUnlimited) return;
      free -= std::min(free, state_.reservations.KeptFrom(limit, {policy.uid, group}));
      events = std::min(events, free / weight);
    };
    ask_tokens(of.FreeTokens());
    if (!own && events > 0) {
      events = std::min(events, of.rate.Allowed(now_));
      if (events == 0) opens = of.rate.NextAt(now_);
    }
    if (of.by_key() && events > 0) {
      limit.key = key;
      ask_tokens(of.FreeTokensOf(key));
      if (events > 0) {
        RateLimit rate = of.RateOf(key);
        events = std::min(events, rate.Allowed(now_));
        if (events == 0) opens = rate.NextAt(now_);
      }
    }
    room.events = std::min(room.events, events);
    if (events > 0) return;
    room.closed = limit;
    if (opens == absl::InfiniteFuture()) return;
    of.closed.insert({opens, limit.key});
    state_.Plan(of);
  };
  state_.ForEachLimit(policy, source, ask);
  return room;
}

uint64_t GrantRound::AllowedOfKey(const PolicyState& policy, const RowSource& source,
                                  absl::Time at) const {
  if (!policy.by_key()) return TargetBackoff::kAnyNumber;
  return state_.core.backoff.Allowed(PausedKey(policy.uid, source.key()), at);
}

// None of the limits is closed for good, as far as is known: tokens of those without room come
// back. And neither a rate nor a pause holds it up for long.
bool GrantRound::MayHope(PolicyState& policy, const RowSource& source) {
  const absl::Time soon = now_ + kHopeWithin;
  const auto definition = DefinitionOf(source);
  bool hope =
      AllowedOfKey(policy, source, soon) > 0 &&
      (definition == nullptr || state_.core.backoff.Allowed(definition->target_key, soon) > 0);
  const auto ask = [&](PolicyState& of, const std::string& key, uint64_t weight) {
    hope &= of.grants_tokens() && LargestOf(of, key) >= weight &&
            RatesOpenAt(of, key, now_) <= soon &&
            (std::min(of.FreeTokens(), of.FreeTokensOf(key)) >= weight ||
             now_ - of.released_last < kHopeFor);
  };
  state_.ForEachLimit(policy, source, ask);
  return hope;
}

void GrantRound::ReviewReservations() {
  if (state_.reservations.empty()) return;
  const auto all = state_.reservations.all();  // a copy
  for (const auto& [id, each] : all) {
    PolicyState* policy = state_.Find(id.first);
    const RowGroup* group = policy == nullptr ? nullptr : policy->waiting.GroupOf(id.second);
    const bool waits = group != nullptr && !group->rows.empty() &&
                       SameLimits(group->rows.begin()->second.source()->event.throttle(),
                                  each.source->event.throttle());
    if (waits && MayHope(*policy, *each.source)) continue;
    state_.OpenLimits(state_.reservations.Remove(id));
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
    if (policy == nullptr) return FairQueue::Woken();
    state_.MakeReady(*policy);
    return policy->waiting.queue().Wake(reason, max);
  });
}

uint64_t GrantRound::Take(PolicyState& policy, const FairQueue::Turn& turn, uint64_t tokens) {
  uint64_t count = std::min(turn.count, tokens);
  WaitingRow* row = turn.slice->row;
  const std::string& key = row->key();
  const RowSource& source = *row->source();
  const RowJudgement judged = Judge(state_, policy, source);
  if (judged.action == RowJudgement::Action::kFetch) return 0;
  const absl::Time superseded_ends_at = SupersededEndsAt(source.event);
  if (judged.superseded() && now_ < superseded_ends_at) {
    policy.waiting.Postpone(key, *row, superseded_ends_at);
    return 0;
  }
  if (!state_.CountsKnown(policy, source)) return 0;
  // A row with a grant of this very round must wait until that grant is known to have applied.
  if (judged.action != RowJudgement::Action::kSend) {
    if (!row->busy()) actions_.Add(policy, key, *row, judged);
    return 0;
  }
  if (RetryIsOver(source.event, *judged.definition->record, judged.definition->timetable.get(),
                  judged.state.get(), now_)) {
    if (!row->busy()) actions_.Fail(policy, key, *row, judged);
    return 0;
  }
  const std::string& target = judged.definition->target_key;
  const GroupKey group = row->group();
  uint64_t by_limits = AllowedOfKey(policy, source, now_);
  if (NeedsMore(policy, source)) {
    by_limits =
        std::min(by_limits, asked_.has_value() ? *asked_ : RoomFor(policy, source, group).events);
  }
  if (by_limits == 0) {  // the definition has just been read
    policy.waiting.Postpone(key, *row, now_ + kKeyAgain);
    return 0;
  }
  count = std::min(
      {count, state_.core.backoff.Allowed(target, now_), by_limits, events_max_ - draft_.events(),
       source.event.throttle().on_release() ? kGrantEventsMax : kGrantEventsMaxOnDelivery});
  if (count == 0) {
    state_.PassOver(policy, target);
    return 0;
  }
  GrantDraft::Claim* claim = draft_.OpenClaim();
  if (claim == nullptr) {
    no_room_ = true;
    return 0;
  }
  count = std::min(count, state_.core.queue_shards.Room(claim->queue_shard, now_));
  state_.core.metrics.wait_seconds.Observe(
      std::max(0.0, absl::ToDoubleSeconds(now_ - turn.slice->due)), count);
  draft_.Make(policy, *row, count, judged, *claim);
  state_.OpenLimits(state_.reservations.Remove({policy.uid, group}));
  return count;
}

absl::Time GrantRound::MayRetryAt(PolicyState& policy, const RowSource& source,
                                  const std::string& target) const {
  const bool paused =
      state_.core.backoff.Allowed(target, now_) == 0 || AllowedOfKey(policy, source, now_) == 0;
  absl::Time at = paused ? now_ + kSleepsOn : now_;
  const auto ask = [&](PolicyState& of, const std::string& key, uint64_t /*weight*/) {
    if (!of.grants_tokens() || LargestOf(of, key) == 0) at = std::max(at, now_ + kSleepsOn);
    at = std::max(at, RatesOpenAt(of, key, now_));
  };
  state_.ForEachLimit(policy, source, ask);
  return at;
}

bool GrantRound::Resume(const Resend& resend) {
  PolicyState* policy = state_.Find(resend.policy);
  const Grant* grant = policy == nullptr ? nullptr : policy->grants.Find(resend.grant);
  if (grant == nullptr) return true;
  const RowJudgement judged = Judge(state_, *policy, *grant->source);
  if (judged.action == RowJudgement::Action::kFetch) return false;
  const bool sleeps = grant->sleeps();
  const bool sends = judged.action == RowJudgement::Action::kSend &&
                     judged.definition->record->version() == grant->record.claimed_version();
  absl::Time at = now_;
  if (sends && sleeps) at = MayRetryAt(*policy, *grant->source, judged.definition->target_key);
  if (!sends || at > now_) {
    // One that sleeps is judged again; if it is not to be sent, it waits without its token then.
    // Any other may be with the consumer, so it keeps its token: a report ends it, or the silence
    // of all.
    if (sleeps) policy->grants.WakeAt(resend.grant, ToMicros(at));
    state_.Plan(*policy);
    return true;
  }
  for (const HeldRange& range :
       policy->grants.Undelivered(resend.grant, resend.first, resend.count)) {
    GrantDraft::Claim* claim = draft_.OpenClaim(grant->record.queue_shard());
    if (claim == nullptr) {
      no_room_ = true;
      return false;
    }
    draft_.MakeAgain(*policy, resend.grant, range, judged, *claim);
  }
  state_.Plan(*policy);
  return true;
}

// A policy that is not there, is paused, has no token free or has used up its rate grants nothing,
// and one with limits for each key may grant nothing to a key. Rows of schedules that are elsewhere
// by now, that have another priority or are gone must not wait for it.
void GrantRound::JudgeOnly(PolicyState& policy) {
  if (now_ < policy.judge_next) {
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
    again |= JudgeGroup(policy, (next++)->second, /*whole=*/false);
  }
  policy.grant_next = now_ + (all ? kJudgeAgain : kJudgeNextGroups);
  policy.judge_next = again ? now_ : policy.grant_next;
}

void GrantRound::JudgeChanged(PolicyState& policy) {
  std::erase_if(policy.changed, [&](const Uid& schedule) {
    bool again = false;  // something goes, or is being read
    for (const RowGroup* group : policy.waiting.GroupsOf(schedule))
      again |= JudgeGroup(policy, *group,
                          /*whole=*/policy.by_key() || policy.waiting.queue().groups_aside() > 0);
    return !again;
  });
}

// A window may be months away, and its schedule be another one, or gone, long before.
void GrantRound::JudgeLongWaiting(PolicyState& policy) {
  for (const GroupKey& key : policy.waiting.LooksBy(now_)) {
    const bool again = JudgeGroup(policy, *policy.waiting.GroupOf(key), /*whole=*/true);
    policy.waiting.LookLater(key, now_ + (again ? kLookAgain : kLookEvery));
  }
}

bool GrantRound::JudgeGroup(PolicyState& policy, const RowGroup& group, bool whole) {
  bool any = false;
  for (const auto& [key, row] : group.rows) {
    if (row.busy()) continue;
    if (actions_.full()) break;
    // Schedules of rows to come are not read for this alone.
    const bool due = row.due() <= now_;
    if (!due && state_.core.cache.StateIfKnown(row.source()->uid) == nullptr) break;
    const RowJudgement judged = Judge(state_, policy, *row.source());
    if (judged.action == RowJudgement::Action::kFetch) return true;
    // Nothing that happens until it is due changes what becomes of the row.
    const bool settled = judged.action == RowJudgement::Action::kMove ||
                         (judged.action == RowJudgement::Action::kSkip && !judged.superseded());
    if (judged.action == RowJudgement::Action::kSend ||
        (judged.superseded() && now_ < SupersededEndsAt(row.source()->event)) ||
        (!due && !settled)) {
      // Rows of a run that is cancelled may stand behind rows of other runs that stay.
      const bool cancels_runs = judged.state != nullptr && judged.state->record.has_value() &&
                                !judged.state->record->cancelled_runs().empty();
      if (whole || cancels_runs) continue;
      break;
    }
    any = true;
    if (!state_.CountsKnown(policy, *row.source())) break;
    actions_.Add(policy, key, *policy.waiting.RowOf(key), judged);
  }
  return any;
}

}  // namespace escapement::token_manager
