// QueuedSlice: events of one row of `waiting` that have not been granted, and when each may go.
//
// Pure values.

#ifndef SERVICES_TOKEN_MANAGER_TURNS_QUEUED_SLICE_H_
#define SERVICES_TOKEN_MANAGER_TURNS_QUEUED_SLICE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement::token_manager {

// An even window: event i may go from begin + (i − first) × duration / count (rounded up to a
// microsecond), at the latest at its end.
struct Pacing {
  absl::Time begin;
  absl::Duration duration;
  uint64_t first = 0;
  uint64_t count = 0;  // 0: not paced, everything may go at any time

  absl::Time At(uint64_t index) const;
  // The end of the indices that may go at `now`: all below it, none from it on.
  uint64_t EndAt(absl::Time now) const;
};

// One row of `waiting`, or what is left of it.
struct QueuedSlice {
  std::string key;  // the row's key; unique in the queue
  uint8_t priority = 5;
  Uid group;                    // the schedule's uid; with the priority it names the group
  absl::Time due;               // not before
  uint64_t first = 0, end = 0;  // events [first, end) are not granted
  Pacing pacing = {};
};

// When its first event may go: the later of its due time and its place in the window.
absl::Time EligibleAt(const QueuedSlice& slice);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TURNS_QUEUED_SLICE_H_
