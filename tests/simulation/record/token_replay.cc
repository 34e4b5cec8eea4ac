#include "tests/simulation/record/token_replay.h"

#include <algorithm>

namespace escapement::simulation {
namespace {

// Far more events than any run has. Stops a broken row from taking all memory.
constexpr uint64_t kIndexMax = 1'000'000;

}  // namespace

std::vector<Indices> Without(const Indices& from, const std::vector<Indices>& without) {
  std::vector<Indices> left = {from};
  for (const Indices& gone : without) {
    std::vector<Indices> next;
    const uint64_t gone_end = gone.first + gone.count;
    for (const Indices& part : left) {
      const uint64_t end = part.first + part.count;
      if (gone_end <= part.first || gone.first >= end) {
        next.push_back(part);
        continue;
      }
      if (gone.first > part.first) next.push_back({part.first, gone.first - part.first});
      if (gone_end < end) next.push_back({gone_end, end - gone_end});
    }
    left = std::move(next);
  }
  left.erase(
      std::remove_if(left.begin(), left.end(), [](const Indices& part) { return part.count == 0; }),
      left.end());
  return left;
}

std::optional<uint64_t> MaxConcurrent(const PolicyWrite& policy,
                                      const std::optional<std::string>& key, absl::Time now) {
  std::optional<uint64_t> limit;
  const uint64_t of_record = key.has_value() ? policy.per_key : policy.max_concurrent;
  if (of_record > 0) limit = of_record;
  if (key.has_value() && !policy.by_key) return std::nullopt;
  for (const OverrideWrite& override : policy.overrides) {
    if (override.key == key && override.max_concurrent.has_value() && override.ends > now)
      limit = override.max_concurrent;
  }
  return limit;
}

std::optional<uint64_t> MaxConcurrentEver(const PolicyWrite& policy,
                                          const std::optional<std::string>& key) {
  std::optional<uint64_t> limit = MaxConcurrent(policy, key, absl::InfiniteFuture());
  for (const OverrideWrite& override : policy.overrides) {
    if (limit.has_value() && override.key == key && override.max_concurrent.has_value())
      limit = std::max(*limit, *override.max_concurrent);
  }
  return limit;
}

uint64_t TokenReplay::held(const std::string& policy) const {
  auto it = held_.find(policy);
  return it == held_.end() ? 0 : it->second;
}

uint64_t TokenReplay::held_of(const std::string& policy, const std::string& policy_key) const {
  const auto keys = held_by_key_.find(policy);
  if (keys == held_by_key_.end()) return 0;
  const auto held = keys->second.find(policy_key);
  return held == keys->second.end() ? 0 : held->second;
}

std::map<std::string, uint64_t> TokenReplay::held_by_key(const std::string& policy) const {
  const auto keys = held_by_key_.find(policy);
  return keys == held_by_key_.end() ? std::map<std::string, uint64_t>() : keys->second;
}

const std::map<std::string, RowWrite>* TokenReplay::waiting(const std::string& policy) const {
  auto it = waiting_.find(policy);
  return it == waiting_.end() || it->second.empty() ? nullptr : &it->second;
}

bool TokenReplay::goes_on(const Run& run) const {
  if (run.first.empty()) return true;  // a one-off event
  auto state = states_.find(run.first);
  if (state == states_.end()) return false;
  auto triggered = trigger_times_.find(run);
  return state->second.enabled ||
         (triggered != trigger_times_.end() && triggered->second > state->second.paused_at);
}

const TokenReplay::Grant* TokenReplay::grant(const GrantName& name) const {
  auto it = grants_.find(name);
  return it == grants_.end() ? nullptr : &it->second;
}

TokenReplay::Place TokenReplay::place(const Run& run, uint64_t index) const {
  auto it = runs_.find(run);
  return it == runs_.end() || index >= it->second.size() ? Place() : it->second[index];
}

TokenReplay::Changes TokenReplay::Apply(const Commit& commit) {
  Changes changes;
  slept_.clear();
  std::map<GrantName, Grant> before;  // the grants that the commit writes, as they were
  for (const TimesWrite& write : commit.times) {
    // A backfill takes back outcomes of events that were never sent.
    const auto* outcome = std::get_if<OutcomeWrite>(&write);
    if (outcome == nullptr || !outcome->deleted) continue;
    for (Place& place : runs_[{outcome->uid, outcome->occurrence}]) place.ended = 0;
  }
  for (const ThrottleWrite& write : commit.throttle) {
    if (const auto* policy = std::get_if<PolicyWrite>(&write)) Write(*policy);
    if (const auto* state = std::get_if<ScheduleStateWrite>(&write)) Write(*state);
    if (const auto* grant = std::get_if<GrantWrite>(&write)) Write(*grant, &before);
    if (const auto* row = std::get_if<RowWrite>(&write)) Write(*row, &changes);
    if (const auto* end = std::get_if<EndWrite>(&write)) Write(*end);
  }
  AddChanges(before, &changes);
  return changes;
}

void TokenReplay::Write(const PolicyWrite& write) {
  if (write.deleted) {
    policies_.erase(write.policy);
  } else {
    policies_[write.policy] = write;
  }
}

void TokenReplay::Write(const GrantWrite& write, std::map<GrantName, Grant>* before) {
  auto it = grants_.find(write.name);
  if (write.retry_at != absl::InfinitePast()) slept_.insert(write.name);
  // A new grant counts as one that had no holders before.
  before->try_emplace(write.name, it == grants_.end() ? Grant() : it->second);
  if (write.deleted) {
    if (it != grants_.end()) grants_.erase(it);
    return;
  }
  grants_[write.name] = {{write.uid, write.occurrence},
                         LimitsOf(write.name.policy, write),
                         write.retry_at != absl::InfinitePast(),
                         write.holders,
                         write.grant_time,
                         write.return_due,
                         write.send_before};
}

void TokenReplay::Write(const RowWrite& write, Changes* changes) {
  if (write.table != RowWrite::Table::kWaiting) return;
  auto& rows = waiting_[write.policy];
  auto it = rows.find(write.key);
  // The key of a one-off event's row does not tell its id.
  const RowWrite& named = write.deleted && it != rows.end() ? it->second : write;
  const Run run{named.uid, named.occurrence};
  if (write.trigger_time != absl::InfinitePast()) trigger_times_[run] = write.trigger_time;
  if (!write.deleted) {
    limits_of_[run].insert(LimitsOf(write.policy, write));
    several_ |= write.weight > 1 || !write.further.empty();
  }
  const Indices old = it == rows.end() ? Indices() : it->second.events;
  const Indices now = write.deleted ? Indices() : write.events;
  for (const Indices& gone : Without(old, {now})) Count(run, gone, &Place::waiting, -1);
  for (const Indices& come : Without(now, {old})) {
    Count(run, come, &Place::waiting, 1);
    changes->waiting_added.push_back({run, come});
  }
  if (write.deleted) {
    if (it != rows.end()) rows.erase(it);
  } else {
    rows[write.key] = write;
  }
}

void TokenReplay::Write(const EndWrite& write) {
  const Run run{write.uid, write.occurrence};
  if (throttled(run)) Count(run, write.events, &Place::ended, 1);
}

void TokenReplay::Count(const Run& run, const Indices& events, uint16_t Place::*field, int by) {
  std::vector<Place>& places = runs_[run];
  const uint64_t end = std::min(events.first + events.count, kIndexMax);
  if (places.size() < end) places.resize(end);
  for (uint64_t i = events.first; i < end; ++i) {
    places[i].*field = static_cast<uint16_t>(places[i].*field + by);
  }
}

void TokenReplay::Hold(const std::vector<LimitOf>& limits, uint64_t events, bool hold) {
  for (const LimitOf& limit : limits) {
    const uint64_t tokens = events * limit.weight;
    auto& of_key = held_by_key_[limit.policy];
    if (hold) {
      held_[limit.policy] += tokens;
      of_key[limit.key] += tokens;
    } else {
      held_[limit.policy] -= tokens;
      if ((of_key[limit.key] -= tokens) == 0) of_key.erase(limit.key);
    }
  }
}

void TokenReplay::AddChanges(const std::map<GrantName, Grant>& before, Changes* changes) {
  for (const auto& [name, old] : before) {
    const Grant* now = grant(name);
    const Run run = now != nullptr ? now->run : old.run;
    for (const Indices& was : old.holders) {
      for (const Indices& gone :
           Without(was, now == nullptr ? std::vector<Indices>() : now->holders)) {
        changes->removed.push_back({name, run, gone, false, false, old.grant_time, old.return_due,
                                    old.limits, old.asleep});
        Count(run, gone, &Place::held, -1);
        Hold(old.limits, gone.count, false);
      }
    }
    if (now == nullptr) {
      given_up_[name] = true;
      continue;
    }
    const bool woken = old.asleep && !now->asleep;
    for (const Indices& is : now->holders) {
      if (woken) {
        changes->woken.push_back(
            {name, run, is, false, false, now->grant_time, now->return_due, now->limits});
      }
      for (const Indices& come : Without(is, old.holders)) {
        changes->added.push_back({name, run, come, old.run == Run(), given_up_.count(name) > 0,
                                  now->grant_time, now->return_due, now->limits, now->asleep,
                                  slept_.contains(name)});
        Count(run, come, &Place::held, 1);
        for (uint64_t i = come.first; i < std::min(come.first + come.count, kIndexMax); ++i)
          runs_[run][i].grant = name;
        Hold(now->limits, come.count, true);
      }
    }
  }
}

}  // namespace escapement::simulation
