#include "services/token_manager/shard/limit_gates.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kWokenMax = 64;  // groups before one gate in one round

}  // namespace

std::string ReasonOf(const LimitName& limit) {
  return limit.key.has_value() ? absl::StrCat("limit ", limit.policy.ToHex(), " ", *limit.key)
                               : absl::StrCat("limit ", limit.policy.ToHex());
}

std::vector<LimitName> LimitsOf(const Uid& policy, const RowSource& source) {
  std::vector<LimitName> limits = {{policy}, {policy, source.key()}};
  for (const FurtherLimit& further : source.further()) {
    limits.push_back({further.policy});
    limits.push_back({further.policy, further.key});
  }
  return limits;
}

void LimitGates::Open(const LimitName& limit) {
  const auto gate = gates_.find(limit);
  if (gate == gates_.end()) return;
  gate->second.opened_again = true;
  open_.insert(limit);
}

void LimitGates::OpenAll(const Uid& policy) {
  for (auto gate = gates_.lower_bound({policy});
       gate != gates_.end() && gate->first.policy == policy; ++gate)
    Open(gate->first);
}

void LimitGates::Wake(absl::FunctionRef<bool(const LimitName& limit)> has_room, WakeOf wake) {
  for (auto open = open_.begin(); open != open_.end();) {
    const auto found = gates_.find(*open);
    Gate& gate = found->second;
    const std::string reason = ReasonOf(*open);
    size_t left = kWokenMax;
    bool done = !has_room(*open);
    while (left > 0 && !done) {
      if (gate.to_wake.empty()) {
        done = !std::exchange(gate.opened_again, false);
        if (!done) gate.to_wake = std::exchange(gate.policies, {});
        continue;
      }
      const FairQueue::Woken woken = wake(*gate.to_wake.begin(), reason, left);
      left -= std::min(left, woken.groups);
      if (!woken.more) gate.to_wake.erase(gate.to_wake.begin());
    }
    if (done && gate.policies.empty() && gate.to_wake.empty()) gates_.erase(found);
    open = done ? open_.erase(open) : std::next(open);
  }
}

std::vector<LimitName> Reservations::Remove(const Id& group) {
  const auto removed = reserved_.extract(group);
  if (removed.empty()) return {};
  return LimitsOf(group.first, *removed.mapped().source);
}

uint64_t Reservations::KeptFrom(const LimitName& limit, const Id& group) const {
  const auto own = reserved_.find(group);
  uint64_t kept = 0;
  for (const auto& [id, each] : reserved_) {
    if (own != reserved_.end() && std::tie(each.since, id) >= std::tie(own->second.since, group))
      continue;
    const auto needs = [&](const Uid& of, const std::string& key, uint64_t weight) {
      if (of == limit.policy && (!limit.key.has_value() || *limit.key == key)) kept += weight;
    };
    needs(id.first, each.source->key(), each.source->weight);
    for (const FurtherLimit& further : each.source->further())
      needs(further.policy, further.key, further.weight);
  }
  return kept;
}

}  // namespace escapement::token_manager
