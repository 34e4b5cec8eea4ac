#include "services/handler/delivery/http/troubled_origins.h"

namespace escapement::handler {

bool TroubledOrigins::Has(const std::string& key) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  absl::MutexLock lock(&mutex_);
  return origins_.contains(key);
}

void TroubledOrigins::OnEnd(const std::string& key, bool answered) {
  if (answered && !any_.load(std::memory_order_relaxed)) return;
  absl::MutexLock lock(&mutex_);
  if (answered) {
    const auto found = origins_.find(key);
    if (found != origins_.end() && ++found->second >= kAnswersInSuccession) origins_.erase(found);
  } else {
    if (origins_.size() >= kOriginsMax) origins_.clear();
    origins_[key] = 0;
  }
  any_.store(!origins_.empty(), std::memory_order_relaxed);
}

}  // namespace escapement::handler
