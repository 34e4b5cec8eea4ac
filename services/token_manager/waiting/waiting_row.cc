#include "services/token_manager/waiting/waiting_row.h"

#include <algorithm>

#include "common/base/proto_time.h"
#include "services/token_manager/waiting/window_plan.h"

namespace escapement::token_manager {

storage::v1::EventRecord WaitingRow::Record() const {
  storage::v1::EventRecord record = source_->event;
  record.set_count(count_);
  if (taken_ > 0 || record.has_throttle()) record.mutable_throttle()->set_taken(taken_);
  return record;
}

std::string WaitingRow::Bytes() const {
  return stored_.empty() ? Record().SerializeAsString() : stored_;
}

bool WaitsLong(const WaitingRow& row) {
  return OpensAt(row.source()->event) > row.due() + kWaitsLong;
}

QueuedSlice SliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead) {
  // The handler waits for a row's due time, but it does not know about windows. So a row that waits
  // for its window to open, or for its place in it, must not be granted ahead.
  const absl::Time opens = OpensAt(row.source()->event);
  Pacing pacing = PacingOf(row.source()->event);
  pacing.begin += grant_lead;
  return {.key = key,
          .priority = row.priority(),
          .group = row.source()->uid,
          .due = opens > row.due() ? opens + grant_lead : row.due(),
          .first = row.first() + row.taken(),
          .end = row.first() + row.count(),
          .pacing = pacing};
}

QueuedSlice JudgedSliceOf(const std::string& key, const WaitingRow& row,
                          absl::Duration grant_lead) {
  QueuedSlice slice = SliceOf(key, row, grant_lead);
  slice.due = row.due();
  slice.pacing = Pacing();
  return slice;
}

int64_t ActsOnCloseMicros(const WaitingRow& row) {
  const absl::Time closes = ClosesAt(row.source()->event);
  if (closes == absl::InfiniteFuture()) return 0;
  const storage::v1::WindowRecord& window = row.source()->event.throttle().window();
  if (window.on_close() != storage::v1::ON_CLOSE_KIND_DROP &&
      window.on_close() != storage::v1::ON_CLOSE_KIND_CARRY_OVER)
    return 0;
  return std::max<int64_t>(ToMicros(closes), 1);
}

}  // namespace escapement::token_manager
