// DueQueue: the rows of one queue shard that are in memory, by segment, and the order in which they
// are taken.
//
// On-time work (lanes 0–9) goes in order of due time, then priority. What has been due for too long
// in such a lane (before the lane's mark, which the loader sets) is overdue and goes beside the
// background (retries, catch-up): a backlog is not to make later events late by the time that it
// takes to drain. While on-time work is due too, the two get at most every second event together;
// while both of them are due, each gets half of that.
//
// Threads: one. Pure.

#ifndef SERVICES_HANDLER_INTAKE_DUE_QUEUE_H_
#define SERVICES_HANDLER_INTAKE_DUE_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/storage/event_table.h"
#include "services/handler/intake/queued_row.h"

namespace escapement::handler {

// Of a well-formed `events` key.
uint8_t LaneOfEventKey(absl::string_view key);
absl::Time DueOfEventKey(absl::string_view key);

// Segments 0 to kLaneCount - 1 are the lanes; then come the overdue parts of lanes 0 to
// kLaneRetry - 1.
inline constexpr uint8_t kSegmentCount = kLaneCount + kLaneRetry;
inline constexpr uint8_t OverdueSegment(uint8_t lane) { return kLaneCount + lane; }
inline constexpr uint8_t LaneOfSegment(uint8_t segment) {
  return segment < kLaneCount ? segment : segment - kLaneCount;
}

class DueQueue {
 public:
  // Replaces a row of the same key.
  void Add(QueuedRow row);
  void Remove(absl::string_view key);
  bool Contains(absl::string_view key) const;
  // Of a well-formed key.
  uint8_t SegmentOf(absl::string_view key) const;

  // Rows of the on-time lane before `mark` are overdue from now on. It only moves up.
  void MarkOverdue(uint8_t lane, std::string mark);
  // No row of the lane is overdue any more; none such is in the queue.
  void EndOverdue(uint8_t lane);
  // Empty: nothing of the lane is overdue.
  const std::string& overdue_mark(uint8_t lane) const { return marks_[lane]; }

  // When the next row falls due after `now`. What is due by then waits for something else.
  std::optional<absl::Time> NextDue(absl::Time now) const;
  // Whether on-time work is due by then: others have only their share meanwhile.
  bool OnTimeDue(absl::Time until) const { return DueBy(FirstSegment(Standing::kOnTime), until); }

  // Which may be taken: overdue work counts as background.
  struct Takeable {
    bool on_time = true;
    bool background = true;
    bool any() const { return on_time || background; }
  };
  // Takes the next row due at or before `until`.
  std::optional<QueuedRow> Take(absl::Time until, Takeable takeable);
  // The row just taken stood for this many events (shares count events, not rows).
  void NoteTaken(Standing standing, uint64_t events);

  // The least key of the segment, until the queue is changed; nothing if it is empty.
  std::optional<absl::string_view> FirstKey(uint8_t segment) const;
  // The greatest, likewise.
  std::optional<absl::string_view> LastKey(uint8_t segment) const;
  // Drops the rows of the segment before `key`.
  void DropBefore(uint8_t segment, absl::string_view key);
  // Drops the rows of the segment that are due last until no more than `rows_max` are left.
  // Returns the smallest key that was dropped; empty if none.
  std::string DropLast(uint8_t segment, size_t rows_max);

  size_t rows(uint8_t segment) const { return segments_[segment].rows.size(); }
  size_t bytes(uint8_t segment) const { return segments_[segment].bytes; }
  size_t rows() const;

 private:
  struct ByKey {
    using is_transparent = void;
    static absl::string_view KeyOf(const QueuedRow& row) { return row.key(); }
    static absl::string_view KeyOf(absl::string_view key) { return key; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return KeyOf(a) < KeyOf(b);
    }
  };
  struct Segment {
    absl::btree_set<QueuedRow, ByKey> rows;
    size_t bytes = 0;
  };
  // Two kinds of work that share evenly: events taken since both have been due.
  struct Share {
    uint64_t first = 0;
    uint64_t second = 0;
  };
  static constexpr uint8_t kNoSegment = kSegmentCount;
  // The segment of [begin, end) whose first row is due first (of equal ones the lowest).
  uint8_t FirstSegment(uint8_t begin, uint8_t end) const;
  uint8_t FirstSegment(Standing standing) const;
  bool DueBy(uint8_t segment, absl::Time until) const;
  QueuedRow Pop(uint8_t segment);

  std::array<Segment, kSegmentCount> segments_;
  std::array<std::string, kLaneRetry> marks_;
  Share on_time_share_;  // first: on time; second: the other two
  Share late_share_;     // first: background; second: overdue
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_INTAKE_DUE_QUEUE_H_
