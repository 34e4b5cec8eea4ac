// Bounds of the emitter, each with its effect. EmitterOptions has the values that a process or a
// test can set.

#ifndef SERVICES_EMITTER_BASE_OPTIONS_H_
#define SERVICES_EMITTER_BASE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace escapement::emitter {

// After downtime a partition catches up in windows of at most this length, so that one step stays
// small.
inline constexpr absl::Duration kWindowMax = absl::Seconds(60);

// Children that one read returns.
inline constexpr uint32_t kScanRowsMax = 1000;

// A commit holds the rows of at most this many children, or this many mutations (but all of one
// child): beyond it the window goes on in a further commit under a cursor.
inline constexpr size_t kChunkChildrenMax = 4000;
inline constexpr size_t kChunkMutationsMax = 20'000;

// Timetables that are cached with their occurrences while a window is read: neighbours in the index
// often have the same one. A full cache is cleared.
inline constexpr size_t kWindowTimetablesMax = 1024;

// Misfire plans that a partition caches during a catch-up (about 300 bytes each). A full cache is
// cleared.
inline constexpr size_t kCatchUpPlansMax = 8192;
// Lists of instants whose definitions are read for their plans before one commit: definitions may
// be as large as a payload.
inline constexpr size_t kListsPlannedMax = 32;

// Steps between two checks whether a LaunchExpression in use is empty, for each partition.
inline constexpr int kSweepEverySteps = 60;

// Active runs (of more than one event) whose parts are added up in memory; further ones wait until
// some have ended.
inline constexpr size_t kActiveRunsMax = 200'000;
// Reads of run parts under way at once.
inline constexpr size_t kRunReadsMax = 16;
// Runs whose windows are judged in one step (about 2 ms). With more of them, the gauge is set only
// every few steps.
inline constexpr size_t kWindowsJudgedMax = 2000;
// Runs closed by one commit.
inline constexpr size_t kRunsClosedMax = 500;
// Runs are closed at most this often: completions that come together share a commit.
inline constexpr absl::Duration kCloseEvery = absl::Milliseconds(50);
// After a failed commit of the closer.
inline constexpr absl::Duration kCloseRetry = absl::Seconds(1);

// Launch records in memory (about 600 bytes each). Above this, paused schedules keep only their
// first record, then the records with the latest launch times are evicted. They are read again when
// half of all records are gone, or when they are due within kLaunchReadAhead. (As many paused
// schedules as this, each with a record, would hold up launches.)
inline constexpr size_t kLaunchesMax = 200'000;
inline constexpr absl::Duration kLaunchReadAhead = absl::Seconds(30);
// Launch records of one schedule that are decided together.
inline constexpr size_t kLaunchesOfScheduleMax = 200;
// A commit holds so many decisions, or mutations (but all of one schedule's).
inline constexpr size_t kLaunchesDecidedMax = 2000;
inline constexpr size_t kLaunchMutationsMax = 20'000;
// After a failed commit of launches, and while a lease is in doubt.
inline constexpr absl::Duration kLaunchRetry = absl::Milliseconds(200);
// How often records that wait for a change of their schedule are judged again, in case the cache
// has evicted the schedule's state. Unread records that are due soon are checked equally often.
// Less than kLaunchReadAhead.
inline constexpr absl::Duration kLaunchSweepEvery = absl::Seconds(5);

// The options of an emitter: the values that a process or a test can set. The fixed bounds are in
// limits.h.

struct EmitterOptions {
  std::string instance = "emitter";              // unique for each start of a process
  std::vector<std::string> dead_instances = {};  // see LeaseKeeper::Options
  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);
  // Rows are written this long before they are due: the time for which emitters may be away
  // without lateness. A change of a schedule emits what falls into it.
  absl::Duration ahead = absl::Seconds(5);
  absl::Duration step_every = absl::Seconds(1);  // in store time; less than `ahead`
  // The revision of this process's time zone database, which must be in force for its commits to
  // apply (common/tzdata). Empty: no revision is required.
  std::string tz_rev = {};
  size_t launches_max = kLaunchesMax;  // launch records in memory
  Metrics* metrics = nullptr;          // null: not shown. Outlives the service
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_BASE_OPTIONS_H_
