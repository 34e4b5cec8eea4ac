#include "services/token_manager/waiting/window_plan.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "common/base/proto_time.h"
#include "common/cron/evaluator.h"
#include "common/storage/children_table.h"

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
                                     absl::Time finish, absl::Time now) {
  if (!HasWindow(row) || !definition.throttle().has_window()) return std::nullopt;
  const storage::v1::WindowRecord& window = definition.throttle().window();
  if (window.duration_micros() <= 0) return std::nullopt;
  const absl::StatusOr<cron::Timetable> timetable = TimetableOf(definition, finish);
  if (!timetable.ok()) return std::nullopt;
  // Open at `now`: begin + duration > now.
  const absl::Time after = std::max(OpensAt(row), now - DurationOf(window));
  const std::optional<cron::Occurrence> next = timetable->FirstAfter(after);
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

}  // namespace escapement::token_manager
