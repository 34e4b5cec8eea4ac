#include "services/token_manager/window_plan.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "common/base/micros.h"
#include "common/cron/evaluator.h"
#include "common/storage/child_rows.h"

namespace escapement::token_manager {
namespace {

using storage::v1::EventRecord;
using storage::v1::ThrottleRecord;

bool HasWindow(const EventRecord& row) {
  return row.throttle().has_window() && row.throttle().window().duration_micros() > 0;
}

absl::Duration DurationOf(const storage::v1::WindowRecord& window) {
  return absl::Microseconds(window.duration_micros());
}

}  // namespace

Pacing PacingOf(const EventRecord& row) {
  Pacing pacing;
  if (!HasWindow(row) || !row.throttle().window().even()) return pacing;
  pacing.begin = OpensAt(row);
  pacing.duration = DurationOf(row.throttle().window());
  pacing.first = row.throttle().pace_first();
  pacing.count = row.throttle().pace_count();
  return pacing;
}

absl::Time OpensAt(const EventRecord& row) {
  if (!HasWindow(row)) return absl::InfinitePast();
  return FromMicros(row.throttle().window_begin_micros());
}

absl::Time ClosesAt(const EventRecord& row) {
  if (!HasWindow(row)) return absl::InfiniteFuture();
  return OpensAt(row) + DurationOf(row.throttle().window());
}

WindowClose CloseAction(const EventRecord& row, absl::Time now) {
  if (now < ClosesAt(row)) return WindowClose::kOpen;
  switch (row.throttle().window().on_close()) {
    case storage::v1::ON_CLOSE_KIND_DROP:
      return WindowClose::kDrop;
    case storage::v1::ON_CLOSE_KIND_CARRY_OVER:
      return WindowClose::kCarryOver;
    default:
      return WindowClose::kFinishLate;
  }
}

std::optional<EventRecord> CarryOver(const EventRecord& row, uint64_t first,
                                     const storage::v1::DefinitionRecord& definition,
                                     absl::Time now) {
  if (!HasWindow(row) || !definition.throttle().has_window()) return std::nullopt;
  const storage::v1::WindowRecord& window = definition.throttle().window();
  if (window.duration_micros() <= 0) return std::nullopt;
  const absl::StatusOr<CronTrigger> trigger = TriggerOf(definition);
  if (!trigger.ok()) return std::nullopt;
  // Open at `now`: begin + duration > now.
  const absl::Time after = std::max(OpensAt(row), now - DurationOf(window));
  const std::optional<cron::Occurrence> next =
      cron::FirstAfter(trigger->expression, trigger->zone, trigger->policy, after);
  if (!next.has_value()) return std::nullopt;
  EventRecord carried = row;
  ThrottleRecord& throttle = *carried.mutable_throttle();
  *throttle.mutable_window() = window;
  throttle.set_window_begin_micros(ToMicros(next->instant));
  throttle.clear_pace_first();
  throttle.clear_pace_count();
  if (window.even()) {
    const uint64_t taken = std::min<uint64_t>(throttle.taken(), row.count());
    throttle.set_pace_first(first + taken);
    throttle.set_pace_count(row.count() - taken);
  }
  return carried;
}

std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards) {
  std::vector<std::pair<uint16_t, IndexSlice>> parts;
  run_count = std::max<uint64_t>(run_count, 1);
  if (queue_shards == 0 || range.count == 0 || range.first >= run_count) return parts;
  const uint64_t end = range.first + std::min(range.count, run_count - range.first);
  if (run_count == 1) {
    parts.emplace_back(ShardOfEventId(run.EventId(0), queue_shards), IndexSlice{0, 1});
    return parts;
  }
  for (uint64_t index = range.first; index < end;) {
    const uint16_t shard = ShardOfIndex(run_count, index, queue_shards);
    const IndexSlice slice = SliceOfShard(run_count, shard, queue_shards);
    const uint64_t part_end = std::min(end, slice.first + slice.count);
    parts.emplace_back(shard, IndexSlice{index, part_end - index});
    index = part_end;
  }
  return parts;
}

}  // namespace escapement::token_manager
