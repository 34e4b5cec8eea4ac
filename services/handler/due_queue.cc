#include "services/handler/due_queue.h"

#include <algorithm>
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

uint8_t DueQueue::SegmentOf(absl::string_view key) const {
  const uint8_t lane = LaneOfEventKey(key);
  return lane < kLaneRetry && key < marks_[lane] ? OverdueSegment(lane) : lane;
}

void DueQueue::Add(QueuedRow row) {
  if (LaneOfEventKey(row.key) >= kLaneCount) return;
  Segment& segment = segments_[SegmentOf(row.key)];
  const size_t bytes = row.key.size() + row.value.size();
  auto [at, added] = segment.rows.try_emplace(std::move(row.key));
  if (!added) segment.bytes -= at->first.size() + at->second.value.size();
  at->second = {.value = std::move(row.value), .seq = row.seq, .resolved = std::move(row.resolved)};
  segment.bytes += bytes;
}

void DueQueue::Remove(absl::string_view key) {
  if (LaneOfEventKey(key) >= kLaneCount) return;
  Segment& segment = segments_[SegmentOf(key)];
  const auto at = segment.rows.find(key);
  if (at == segment.rows.end()) return;
  segment.bytes -= at->first.size() + at->second.value.size();
  segment.rows.erase(at);
}

bool DueQueue::Contains(absl::string_view key) const {
  return LaneOfEventKey(key) < kLaneCount && segments_[SegmentOf(key)].rows.contains(key);
}

void DueQueue::MarkOverdue(uint8_t lane, std::string mark) {
  if (mark <= marks_[lane]) return;
  marks_[lane] = std::move(mark);
  Segment& overdue = segments_[OverdueSegment(lane)];
  while (!segments_[lane].rows.empty() && segments_[lane].rows.begin()->first < marks_[lane]) {
    QueuedRow row = Pop(lane);
    overdue.bytes += row.key.size() + row.value.size();
    overdue.rows.insert_or_assign(
        overdue.rows.end(), std::move(row.key),
        Value{.value = std::move(row.value), .seq = row.seq, .resolved = std::move(row.resolved)});
  }
}

void DueQueue::EndOverdue(uint8_t lane) { marks_[lane].clear(); }

uint8_t DueQueue::FirstSegment(uint8_t begin, uint8_t end) const {
  uint8_t first = kNoSegment;
  absl::string_view first_due;  // encoded: its order is the order of the times
  for (uint8_t i = begin; i < end; ++i) {
    if (segments_[i].rows.empty()) continue;
    const absl::string_view due = absl::string_view(segments_[i].rows.begin()->first).substr(3, 8);
    if (first == kNoSegment || due < first_due) {
      first = i;
      first_due = due;
    }
  }
  return first;
}

uint8_t DueQueue::FirstSegment(Standing standing) const {
  switch (standing) {
    case Standing::kOnTime:
      return FirstSegment(0, kLaneRetry);
    case Standing::kOverdue:
      return FirstSegment(kLaneCount, kSegmentCount);
    case Standing::kBackground:
      break;
  }
  return FirstSegment(kLaneRetry, kLaneCount);
}

std::optional<absl::Time> DueQueue::NextDue(absl::Time now) const {
  std::optional<absl::Time> next;
  for (const Standing standing : {Standing::kOnTime, Standing::kOverdue, Standing::kBackground}) {
    const uint8_t segment = FirstSegment(standing);
    if (segment == kNoSegment || DueBy(segment, now)) continue;
    const absl::Time due = DueOfEventKey(segments_[segment].rows.begin()->first);
    next = next.has_value() ? std::min(*next, due) : due;
  }
  return next;
}

bool DueQueue::DueBy(uint8_t segment, absl::Time until) const {
  return segment != kNoSegment && DueOfEventKey(segments_[segment].rows.begin()->first) <= until;
}

std::optional<QueuedRow> DueQueue::Take(absl::Time until, Takeable takeable) {
  const auto due = [&](Standing standing, bool allowed) {
    const uint8_t segment = allowed ? FirstSegment(standing) : kNoSegment;
    return DueBy(segment, until) ? segment : kNoSegment;
  };
  const auto share = [](uint8_t first, uint8_t second, Share& taken) {
    if (first == kNoSegment || second == kNoSegment) {
      taken = Share();
      return first == kNoSegment ? second : first;
    }
    return taken.second < taken.first ? second : first;
  };
  const uint8_t late = share(due(Standing::kBackground, takeable.background),
                             due(Standing::kOverdue, takeable.background), late_share_);
  const uint8_t next = share(due(Standing::kOnTime, takeable.on_time), late, on_time_share_);
  if (next == kNoSegment) return std::nullopt;
  return Pop(next);
}

void DueQueue::NoteTaken(Standing standing, uint64_t events) {
  (standing == Standing::kOnTime ? on_time_share_.first : on_time_share_.second) += events;
  if (standing == Standing::kOnTime) return;
  (standing == Standing::kBackground ? late_share_.first : late_share_.second) += events;
}

QueuedRow DueQueue::Pop(uint8_t index) {
  Segment& segment = segments_[index];
  const auto at = segment.rows.begin();
  segment.bytes -= at->first.size() + at->second.value.size();
  QueuedRow row{.key = at->first, .value = std::move(at->second.value), .seq = at->second.seq};
  row.resolved = std::move(at->second.resolved);
  row.standing = index >= kLaneCount   ? Standing::kOverdue
                 : index >= kLaneRetry ? Standing::kBackground
                                       : Standing::kOnTime;
  segment.rows.erase(at);
  return row;
}

const std::string* DueQueue::FirstKey(uint8_t segment) const {
  const auto& rows = segments_[segment].rows;
  return rows.empty() ? nullptr : &rows.begin()->first;
}

void DueQueue::DropBefore(uint8_t segment, absl::string_view key) {
  while (FirstKey(segment) != nullptr && *FirstKey(segment) < key) Pop(segment);
}

std::string DueQueue::DropLast(uint8_t index, size_t rows_max) {
  Segment& segment = segments_[index];
  std::string dropped;
  while (segment.rows.size() > rows_max) {
    const auto last = std::prev(segment.rows.end());
    segment.bytes -= last->first.size() + last->second.value.size();
    dropped = last->first;
    segment.rows.erase(last);
  }
  return dropped;
}

size_t DueQueue::rows() const {
  size_t rows = 0;
  for (const Segment& segment : segments_) rows += segment.rows.size();
  return rows;
}

}  // namespace escapement::handler
