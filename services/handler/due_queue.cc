#include "services/handler/due_queue.h"

#include <utility>

#include "common/base/key_codec.h"

namespace escapement::handler {

uint8_t LaneOfEventKey(absl::string_view key) {
  return key.size() > 2 ? static_cast<uint8_t>(key[2]) : 0;
}

absl::Time DueOfEventKey(absl::string_view key) {
  KeyReader reader(key.size() > 3 ? key.substr(3) : absl::string_view());
  return reader.Time();
}

void DueQueue::Add(QueuedRow row) {
  const uint8_t index = LaneOfEventKey(row.key);
  if (index >= kLaneCount) return;
  Lane& lane = lanes_[index];
  const size_t bytes = row.key.size() + row.value.size();
  auto [at, added] = lane.rows.try_emplace(std::move(row.key));
  if (!added) lane.bytes -= at->first.size() + at->second.value.size();
  at->second = {.value = std::move(row.value), .seq = row.seq};
  lane.bytes += bytes;
}

void DueQueue::Remove(absl::string_view key) {
  if (LaneOfEventKey(key) >= kLaneCount) return;
  Lane& lane = lanes_[LaneOfEventKey(key)];
  const auto at = lane.rows.find(key);
  if (at == lane.rows.end()) return;
  lane.bytes -= at->first.size() + at->second.value.size();
  lane.rows.erase(at);
}

bool DueQueue::Contains(absl::string_view key) const {
  const uint8_t lane = LaneOfEventKey(key);
  return lane < kLaneCount && lanes_[lane].rows.contains(key);
}

uint8_t DueQueue::FirstLane(uint8_t begin, uint8_t end) const {
  uint8_t first = kLaneCount;
  absl::string_view first_due;  // encoded: its order is the order of the times
  for (uint8_t i = begin; i < end; ++i) {
    if (lanes_[i].rows.empty()) continue;
    const absl::string_view due = absl::string_view(lanes_[i].rows.begin()->first).substr(3, 8);
    if (first == kLaneCount || due < first_due) {
      first = i;
      first_due = due;
    }
  }
  return first;
}

std::optional<absl::Time> DueQueue::NextDue() const {
  const uint8_t lane = FirstLane(0, kLaneCount);
  if (lane == kLaneCount) return std::nullopt;
  return DueOfEventKey(lanes_[lane].rows.begin()->first);
}

bool DueQueue::DueBy(uint8_t lane, absl::Time until) const {
  return lane != kLaneCount && DueOfEventKey(lanes_[lane].rows.begin()->first) <= until;
}

std::optional<QueuedRow> DueQueue::Take(absl::Time until) {
  const uint8_t on_time = FirstLane(0, kLaneRetry);
  const uint8_t background = FirstLane(kLaneRetry, kLaneCount);
  const bool on_time_due = DueBy(on_time, until);
  const bool background_due = DueBy(background, until);
  if (on_time_due && background_due)
    return Pop(background_taken_ < on_time_taken_ ? background : on_time);
  on_time_taken_ = background_taken_ = 0;
  if (on_time_due) return Pop(on_time);
  if (background_due) return Pop(background);
  return std::nullopt;
}

void DueQueue::NoteTaken(absl::string_view key, uint64_t events) {
  (LaneOfEventKey(key) < kLaneRetry ? on_time_taken_ : background_taken_) += events;
}

QueuedRow DueQueue::Pop(uint8_t index) {
  Lane& lane = lanes_[index];
  const auto at = lane.rows.begin();
  lane.bytes -= at->first.size() + at->second.value.size();
  QueuedRow row{.key = at->first, .value = std::move(at->second.value), .seq = at->second.seq};
  lane.rows.erase(at);
  return row;
}

std::string DueQueue::DropLast(uint8_t index, size_t rows_max) {
  Lane& lane = lanes_[index];
  std::string dropped;
  while (lane.rows.size() > rows_max) {
    const auto last = std::prev(lane.rows.end());
    lane.bytes -= last->first.size() + last->second.value.size();
    dropped = last->first;
    lane.rows.erase(last);
  }
  return dropped;
}

size_t DueQueue::rows() const {
  size_t rows = 0;
  for (const Lane& lane : lanes_) rows += lane.rows.size();
  return rows;
}

}  // namespace escapement::handler
