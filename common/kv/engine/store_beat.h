// The beats of a store's time: the instants at which all processes do what they do periodically.
//
// At the same instants, so that the commits of all are synced as one and an idle machine sleeps in
// between; half past each multiple of the period, since schedules fall due at whole seconds and
// their delivery is not to share that instant.
//
// Pure.

#ifndef COMMON_KV_ENGINE_STORE_BEAT_H_
#define COMMON_KV_ENGINE_STORE_BEAT_H_

#include "absl/time/time.h"

namespace escapement::kv {

// From `store_time` to the next beat of `period`, for who last worked `since_last` ago. Who knows
// the store's time only as a lower bound (KvClient::NowLow) wakes at the beat and believes that it
// is still to come: the next one is at least half a period after the last work. While the store's
// time is not known (InfinitePast) a period.
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
