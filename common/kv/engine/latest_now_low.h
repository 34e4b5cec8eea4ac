// LatestNowLow: how far store time must be for the commits of a batch (CommitRequest::now_low).

#ifndef COMMON_KV_ENGINE_LATEST_NOW_LOW_H_
#define COMMON_KV_ENGINE_LATEST_NOW_LOW_H_

#include <algorithm>

#include "absl/time/time.h"

namespace escapement::kv {

// The latest `now_low` of what waits for a batch; InfinitePast if none has one. Each of `works` has
// `request`, a pointer to a CommitRequest or null.
template <typename Works>
absl::Time LatestNowLow(const Works& works) {
  absl::Time latest = absl::InfinitePast();
  for (const auto& work : works) {
    if (work.request != nullptr) latest = std::max(latest, work.request->now_low);
  }
  return latest;
}

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_LATEST_NOW_LOW_H_
