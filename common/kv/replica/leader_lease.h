// LeaderLease: how long a leader may answer what needs no append: reads, and verdicts that write
// nothing.
//
// Check it after the state was read and before the answer is given: what was true then is a valid
// answer, however late it arrives.
//
// Threads: any.

#ifndef COMMON_KV_REPLICA_LEADER_LEASE_H_
#define COMMON_KV_REPLICA_LEADER_LEASE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/kv/replica/takeover_timer.h"

namespace escapement::kv {

class LeaderLease {
 public:
  // An append is acknowledged whose batch was begun at `began` (Clock::Elapsed). The clock record
  // in the batch is not newer than that, so no store time more than kLeaseMax beyond it is ever
  // given out (StoreKernel::Options::clock_age).
  void Renew(absl::Duration began) {
    const int64_t until = absl::ToInt64Nanoseconds(began + kLeaseMax);
    int64_t now = until_.load(std::memory_order_relaxed);
    while (now != kEnded && now < until && !until_.compare_exchange_weak(now, until)) {
    }
  }
  // For good.
  void End() { until_.store(kEnded); }

  // When the last acknowledged batch was begun; nullopt before the first one and after End.
  std::optional<absl::Duration> renewed_at() const {
    const int64_t until = until_.load();
    if (until == 0 || until == kEnded) return std::nullopt;
    return absl::Nanoseconds(until) - kLeaseMax;
  }
  bool Holds(absl::Duration now) const { return absl::ToInt64Nanoseconds(now) < until_.load(); }

 private:
  static constexpr int64_t kEnded = INT64_MIN;
  std::atomic<int64_t> until_{0};
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_LEADER_LEASE_H_
