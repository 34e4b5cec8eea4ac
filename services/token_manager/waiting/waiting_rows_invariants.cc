// WaitingRows::CheckInvariants, apart from the code that it checks.

#include "common/base/check.h"
#include "services/token_manager/waiting/waiting_rows.h"

namespace escapement::token_manager {

using State = WaitingRow::State;

void WaitingRows::CheckInvariants() const {
  size_t rows = 0;
  size_t closings = 0;
  size_t openings = 0;
  size_t looks = 0;
  size_t slices = 0;
  for (const auto& [group_key, group] : groups_) {
    rows += group.rows_.size();
    CHECK(group.has_more() || group.end_.empty());
    CHECK(group.has_more() || group.arrived_.empty());
    CHECK(group.has_more() || !group.rows_.empty() || group.opens_ != absl::InfiniteFuture())
        << "an empty group stays";
    CHECK_EQ(group.opens_ != absl::InfiniteFuture(), openings_.contains({group.opens_, group_key}));
    CHECK_EQ(group.look_ != absl::InfiniteFuture(), looks_.contains({group.look_, group_key}));
    openings += group.opens_ != absl::InfiniteFuture() ? 1 : 0;
    looks += group.look_ != absl::InfiniteFuture() ? 1 : 0;
    for (const auto& [key, row] : group.rows_) {
      CHECK(!group.has_more() || key < group.end_) << "a row behind its group's end";
      CHECK_LE(row.taken_, row.count_);
      CHECK(!row.rewritten_ || row.busy() || row.state_ == State::kQueued);
      const QueuedSlice* slice = queue_.Find(key);
      const bool queued = row.state_ == State::kQueued || row.state_ == State::kToJudge ||
                          (row.state_ == State::kGranting && row.left() > 0);
      CHECK_EQ(queued, slice != nullptr);
      if (slice != nullptr) CHECK_EQ(slice->first, row.first_ + row.taken_);
      slices += slice != nullptr ? 1 : 0;
      CHECK_EQ(row.closes_micros_ != 0, closings_.contains({row.closes_micros_, key}));
      closings += row.closes_micros_ != 0 ? 1 : 0;
    }
  }
  CHECK_EQ(rows, rows_);
  CHECK_EQ(closings, closings_.size());
  CHECK_EQ(openings, openings_.size());
  CHECK_EQ(looks, looks_.size());
  CHECK_EQ(slices, queue_.rows());
}

}  // namespace escapement::token_manager
