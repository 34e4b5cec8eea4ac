#include "services/token_manager/target_backoff.h"

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
    if (!it->second.probe_out && now < it->second.opens_at) return;
    it->second.backoff = std::min(it->second.backoff * 2, kTargetBackoffMax);
  }
  it->second.probe_out = false;
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

void TargetBackoff::OnGranted(absl::string_view target, uint64_t n, absl::Time now) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || n == 0) return;
  it->second.probe_out = true;
  SetOpening(it, std::max(it->second.opens_at, now + kProbePatience));
}

void TargetBackoff::OnProbeVoid(absl::string_view target, absl::Time now) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || !it->second.probe_out) return;
  it->second.probe_out = false;
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
