// The column families `runs` and `run_parts`. A run has a row if it has more than one event, or if
// its schedule has on_complete or an overlap policy.
//
// runs: uid, occurrence (text) → RunRecord
//
// run_parts: uid, occurrence, queue shard (u16) → RunPartRecord. The owner of policy shard s writes
// part 32768 + s (throttled runs). The masters write part 65535 for events that they end
// themselves: parked slices of a paused schedule that was resumed or deleted. They also take failed
// events that they redrive out of it, so that this part may fall below zero: its counts are modulo
// 2^64, and the sums of all parts are right. They write it under the condition that it is as it was
// read. The parts with an empty occurrence are the counts of all runs of the schedule.

#ifndef COMMON_STORAGE_RUN_TABLE_H_
#define COMMON_STORAGE_RUN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"
#include "common/storage/event_id.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

struct RunKey {
  Uid uid;
  std::string occurrence;

  friend bool operator==(const RunKey&, const RunKey&) = default;
};

std::string EncodeRunKey(const RunKey& key);
std::optional<RunKey> DecodeRunKey(absl::string_view key);
// True if this row's run has a run record, in which the row's events count.
template <typename Row>  // as in event_table.h
bool HasRun(const Row& row) {
  return (row.run_count() > 1 || row.run_kept()) && !row.counts_in_no_run();
}
// The prefix of all runs of a schedule.
std::string RunPrefix(const Uid& uid);

inline constexpr uint16_t kMasterRunPart = 0xffff;
// The part that the owner of a policy shard writes, for throttled runs.
constexpr uint16_t PolicyRunPart(uint16_t policy_shard) { return 0x8000 | policy_shard; }
std::string RunPartKey(const RunKey& run, uint16_t shard);
// The prefix of all parts of a run.
std::string RunPartPrefix(const RunKey& run);

// One part of the counts of all runs of a schedule, and the prefix of all these parts.
std::string ScheduleCountsKey(const Uid& uid, uint16_t shard);
std::string ScheduleCountsPrefix(const Uid& uid);
// Adds `count` events that ended with `outcome`, the last of them at end_micros, to such a part.
// Only succeeded and failed events count; others change nothing.
void CountInSchedule(storage::v1::OutcomeKind outcome, uint64_t count, int64_t end_micros,
                     storage::v1::RunPartRecord& part);
// Adds a part to the sum of parts.
void AddScheduleCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum);

// The reports of runs (v1::RunReport), and how runs keep to their windows (v1::RunWindow).
//
// Pure.

// RunPartRecord.slowest has at most so many events.
inline constexpr int kSlowestMax = 10;
// Notes in the part of a run that an event ended so long after its last dispatch. An event that was
// redriven counts once, with its slowest end.
void NoteSlow(uint64_t index, int64_t duration_micros, storage::v1::RunPartRecord& part);
// The same for a range of events that ended together.
void NoteSlow(IndexSlice range, int64_t duration_micros, storage::v1::RunPartRecord& part);
// Adds the slowest events of a part to those of a sum of parts.
void AddSlowest(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum);

// The facts from which the state of a run in its window follows. Times are microseconds.
struct WindowProgress {
  int64_t open_micros = 0;
  int64_t close_micros = 0;  // 0: the run has no window
  bool even = false;
  uint64_t event_count = 0;
  uint64_t ended = 0;  // events, with any outcome
  uint64_t expired = 0;
  int64_t first_grant_micros = 0;  // 0: no event has been granted a token
  int64_t last_end_micros = 0;     // 0: not known
  int64_t complete_micros = 0;     // 0: the run is active
};
// `sum`: of the run's parts.
WindowProgress WindowProgressOf(const storage::v1::RunRecord& run,
                                const storage::v1::RunPartRecord& sum);

enum class WindowState : uint8_t { kOnTrack, kAtRisk, kLate };
struct WindowVerdict {
  WindowState state = WindowState::kOnTrack;
  double required_rate = 0;  // events per second
  double actual_rate = 0;
};
// The state and the rates at `now_micros`, as v1::RunWindow defines them. The run has a window.
WindowVerdict JudgeWindow(const WindowProgress& run, int64_t now_micros);

// Splits the events of a run by queue shard. In a run of one event its id decides; larger runs have
// contiguous slices (event_id.h). The shard of an event holds its row of `events` and its Done
// record.
//
// Pure.

// Splits events [range.first, range.first + range.count) of a run of `run_count` events by queue
// shard, in ascending order. Indices beyond the run are left out.
std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_RUN_TABLE_H_
