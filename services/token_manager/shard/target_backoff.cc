#include "services/token_manager/shard/target_backoff.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/storage/name_tables.h"

namespace escapement::token_manager {
namespace {

constexpr absl::string_view kPausedKey = "key ";

bool IsPausedKey(absl::string_view name) { return absl::StartsWith(name, kPausedKey); }

}  // namespace

std::string PausedKey(const Uid& policy, absl::string_view policy_key) {
  return absl::StrCat(kPausedKey, policy.ToHex(), " ", policy_key);
}

void TargetBackoff::Unlist(Targets::iterator it) {
  openings_.erase({it->second.opens_at, it->first});
  not_told_.erase({it->second.opens_at, it->first});
  if (!it->second.probe_out.has_value()) return;
  const auto [begin, end] = probes_.equal_range(*it->second.probe_out);
  probes_.erase(std::find_if(begin, end, [&](const auto& out) { return out.second == it->first; }));
}

void TargetBackoff::Set(Targets::iterator it, absl::Time opens_at, std::optional<Probe> probe) {
  Unlist(it);
  it->second.opens_at = opens_at;
  it->second.probe_out = probe;
  openings_.emplace(opens_at, it->first);
  not_told_.emplace(opens_at, it->first);
  if (probe.has_value()) probes_.emplace(*probe, it->first);
}

void TargetBackoff::Forget(Targets::iterator it) {
  Unlist(it);
  targets_.erase(it);
}

TargetBackoff::Targets::iterator TargetBackoff::FindOrAdd(absl::string_view target) {
  if (const auto known = targets_.find(target); known != targets_.end()) return known;
  if (targets_.size() >= targets_max_ && !openings_.empty()) {
    const auto former = *openings_.begin();
    const bool told = !not_told_.contains(former);
    Forget(targets_.find(former.second));
    if (!told) not_told_.emplace(absl::InfinitePast(), former.second);
  }
  return targets_.try_emplace(std::string(target)).first;
}

void TargetBackoff::OnUnreachable(absl::string_view target, absl::Time now) {
  const auto it = FindOrAdd(target);
  if (!it->second.probe_out.has_value() && now < it->second.opens_at) return;
  it->second.backoff = std::clamp(it->second.backoff * 2, kTargetBackoffMin, kTargetBackoffMax);
  it->second.asked = false;
  Set(it, now + it->second.backoff);
}

void TargetBackoff::OnPauseAsked(absl::string_view target, absl::Time until) {
  const auto it = FindOrAdd(target);
  if (!it->second.probe_out.has_value()) until = std::max(until, it->second.opens_at);
  it->second.asked = true;
  it->second.backoff = kTargetBackoffMin;
  Set(it, until);
}

bool TargetBackoff::OnAnswered(absl::string_view target, const Probe& grant) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || (it->second.asked && it->second.probe_out != grant)) return false;
  Forget(it);
  return true;
}

void TargetBackoff::OnSeenWell(absl::string_view target, absl::Time now) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || it->second.asked || it->second.probe_out.has_value()) return;
  if (now < it->second.opens_at) Set(it, now);
}

void TargetBackoff::OnReset(const Uid& target_id, absl::Time now) {
  for (auto it = targets_.begin(); it != targets_.end(); ++it) {
    if (now < it->second.opens_at && !it->second.probe_out.has_value() && !IsPausedKey(it->first) &&
        TargetIdOf(it->first) == target_id)
      Set(it, now);
  }
}

uint64_t TargetBackoff::Allowed(absl::string_view target, absl::Time now) const {
  const auto it = targets_.find(target);
  if (it == targets_.end()) return kAnyNumber;
  return now < it->second.opens_at ? 0 : 1;
}

void TargetBackoff::OnGranted(absl::string_view target, const Probe& grant, absl::Time now) {
  const auto it = targets_.find(target);
  if (it != targets_.end()) Set(it, std::max(it->second.opens_at, now + kProbePatience), grant);
}

void TargetBackoff::OnProbeVoid(absl::string_view target, absl::Time now) {
  const auto it = targets_.find(target);
  if (it != targets_.end() && it->second.probe_out.has_value()) Set(it, now);
}

void TargetBackoff::OnShardLost(uint32_t policy_shard, absl::Time now) {
  for (auto out = probes_.lower_bound({.policy_shard = policy_shard});
       out != probes_.end() && out->first.policy_shard == policy_shard;
       out = probes_.lower_bound({.policy_shard = policy_shard}))
    Set(targets_.find(out->second), now);
}

const std::string* TargetBackoff::TargetOf(const Probe& grant) const {
  const auto [begin, end] = probes_.equal_range(grant);
  const auto found =
      std::find_if(begin, end, [](const auto& out) { return !IsPausedKey(out.second); });
  return found == end ? nullptr : &found->second;
}

absl::Time TargetBackoff::NextAt(absl::Time now) const {
  const auto it = openings_.lower_bound({now + absl::Nanoseconds(1) / 4, std::string()});
  return it == openings_.end() ? absl::InfiniteFuture() : it->first;
}

std::vector<std::string> TargetBackoff::TakeOpened(absl::Time now, size_t max) {
  std::vector<std::string> opened;
  while (!not_told_.empty() && opened.size() < max && not_told_.begin()->first <= now) {
    opened.push_back(std::move(not_told_.extract(not_told_.begin()).value().second));
  }
  return opened;
}

}  // namespace escapement::token_manager
