// The beats of store time: the instants at which all processes do their periodic work.
//
// All processes use the same instants, so the store syncs their commits together and an idle
// machine sleeps in between. A beat is half a period past each multiple of the period: schedules
// fall due at whole seconds, and periodic work should not compete with their delivery.
//
// Pure.

#ifndef COMMON_KV_ENGINE_STORE_BEAT_H_
#define COMMON_KV_ENGINE_STORE_BEAT_H_

#include "absl/time/time.h"

namespace escapement::kv {

// Time from `store_time` to the caller's next beat of `period`. `since_last` is the time since the
// caller's last work. A caller that knows store time only as a lower bound (KvClient::NowLow) wakes
// at the beat and believes that the beat is still ahead. So the next beat is at least half a period
// after the last work. Returns one period while store time is unknown (InfinitePast).
inline absl::Duration UntilBeat(absl::Time store_time, absl::Duration period,
                                absl::Duration since_last) {
  if (store_time == absl::InfinitePast()) return period;
  const absl::Duration since = (store_time - absl::UnixEpoch() - period / 2) % period;
  const absl::Duration until =
      (since < absl::ZeroDuration() ? absl::ZeroDuration() : period) - since;
  return since_last + until < period / 2 ? until + period : until;
}

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_BEAT_H_
