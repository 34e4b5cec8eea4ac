#include "services/token_manager/shard/target_backoff.h"

#include <algorithm>

namespace escapement::token_manager {

void TargetBackoff::SetOpening(Targets::iterator it, absl::Time opens_at) {
  openings_.erase({it->second.opens_at, it->first});
  not_told_.erase({it->second.opens_at, it->first});
  it->second.opens_at = opens_at;
  openings_.emplace(opens_at, it->first);
  not_told_.emplace(opens_at, it->first);
}

void TargetBackoff::Forget(Targets::iterator it) {
  openings_.erase({it->second.opens_at, it->first});
  not_told_.erase({it->second.opens_at, it->first});
  targets_.erase(it);
}

void TargetBackoff::OnUnreachable(absl::string_view target, absl::Time now) {
  auto it = targets_.find(target);
  if (it == targets_.end()) {
    if (targets_.size() >= targets_max_ && !openings_.empty())
      Forget(targets_.find(openings_.begin()->second));
    it = targets_.try_emplace(std::string(target)).first;
    it->second.backoff = kTargetBackoffMin;
  } else {
    if (!it->second.probe_out.has_value() && now < it->second.opens_at) return;
    it->second.backoff = std::min(it->second.backoff * 2, kTargetBackoffMax);
  }
  it->second.probe_out.reset();
  SetOpening(it, now + it->second.backoff);
}

bool TargetBackoff::OnAnswered(absl::string_view target) {
  const auto it = targets_.find(target);
  if (it == targets_.end()) return false;
  Forget(it);
  return true;
}

uint64_t TargetBackoff::Allowed(absl::string_view target, absl::Time now) const {
  const auto it = targets_.find(target);
  if (it == targets_.end()) return kAnyNumber;
  return now < it->second.opens_at ? 0 : 1;
}

void TargetBackoff::OnGranted(absl::string_view target, uint64_t n, const Probe& grant,
                              absl::Time now) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || n == 0) return;
  it->second.probe_out = grant;
  SetOpening(it, std::max(it->second.opens_at, now + kProbePatience));
}

void TargetBackoff::OnProbeVoid(absl::string_view target, absl::Time now) {
  const auto it = targets_.find(target);
  if (it != targets_.end() && it->second.probe_out.has_value()) VoidProbe(it, now);
}

void TargetBackoff::OnShardLost(uint32_t policy_shard, absl::Time now) {
  for (auto it = targets_.begin(); it != targets_.end(); ++it) {
    const std::optional<Probe>& probe = it->second.probe_out;
    if (probe.has_value() && probe->policy_shard == policy_shard) VoidProbe(it, now);
  }
}

const std::string* TargetBackoff::TargetOf(const Probe& grant) const {
  const auto it = std::find_if(targets_.begin(), targets_.end(), [&](const auto& target) {
    return target.second.probe_out == grant;
  });
  return it == targets_.end() ? nullptr : &it->first;
}

void TargetBackoff::VoidProbe(Targets::iterator it, absl::Time now) {
  it->second.probe_out.reset();
  SetOpening(it, now);
}

std::optional<absl::Time> TargetBackoff::NextAt(absl::Time now) const {
  const auto it = openings_.lower_bound({now + absl::Nanoseconds(1) / 4, std::string()});
  if (it == openings_.end()) return std::nullopt;
  return it->first;
}

std::vector<std::string> TargetBackoff::TakeOpened(absl::Time now, size_t max) {
  std::vector<std::string> opened;
  while (!not_told_.empty() && opened.size() < max && not_told_.begin()->first <= now) {
    opened.push_back(std::move(not_told_.extract(not_told_.begin()).value().second));
  }
  return opened;
}

}  // namespace escapement::token_manager
