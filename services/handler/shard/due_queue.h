// DueQueue: the rows of one queue shard that are in memory, and the order in which they are taken.
// QueuedRow: one of these rows.

#ifndef SERVICES_HANDLER_SHARD_DUE_QUEUE_H_
#define SERVICES_HANDLER_SHARD_DUE_QUEUE_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_table.h"

namespace escapement::handler {

// Segments 0 to kLaneCount - 1 are the lanes; then come the late parts of lanes 0 to
// kLaneRetry - 1.
inline constexpr uint8_t kSegmentCount = kLaneCount + kLaneRetry;
constexpr uint8_t LateSegment(uint8_t lane) { return kLaneCount + lane; }
constexpr uint8_t LaneOfSegment(uint8_t segment) {
  return segment < kLaneCount ? segment : segment - kLaneCount;
}

enum class Standing : uint8_t { kOnTime, kLate, kBackground };
constexpr Standing StandingOf(uint8_t segment) {
  if (segment >= kLaneCount) return Standing::kLate;
  return segment >= kLaneRetry ? Standing::kBackground : Standing::kOnTime;
}

struct ResolvedRow;

// QueuedRow: a row of `events` in the handler's memory. It is one allocation, because each lane of
// each shard may have thousands of rows. The row's judgement and its claim share the bytes.
//
// Threads: any, one at a time; the bytes may be released on any thread.
class QueuedRow {
 public:
  // `seq`: the commit number at which the row was read.
  QueuedRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq);
  QueuedRow(QueuedRow&&) = default;
  QueuedRow& operator=(QueuedRow&& other);
  ~QueuedRow();

  // Do not call these on a row that has been moved from.
  absl::string_view key() const { return {text(), head_->key_bytes}; }  // in `events`
  absl::string_view value() const { return {text() + head_->key_bytes, head_->value_bytes}; }
  size_t bytes() const { return size_t{head_->key_bytes} + head_->value_bytes; }
  // Keeps the bytes of key and value, which stay where they are.
  std::shared_ptr<const void> Share() const { return head_; }

  kv::CommitSeq seq() const { return head_->seq; }
  void set_seq(kv::CommitSeq seq) { head_->seq = seq; }

  // The segment from which the row was taken.
  uint8_t segment() const { return head_->segment; }
  void set_segment(uint8_t segment) { head_->segment = segment; }
  Standing standing() const { return StandingOf(segment()); }

  // Keeps the row's judgement (row_resolver.h) while the row waits for room. Not null.
  void KeepResolved(std::unique_ptr<ResolvedRow> resolved);
  std::unique_ptr<ResolvedRow> TakeResolved();  // null: none is kept

 private:
  struct Head {
    kv::CommitSeq seq;
    ResolvedRow* resolved;  // owned
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t segment;
  };
  // The bytes of key and value follow the head.
  const char* text() const { return reinterpret_cast<const char*>(head_.get() + 1); }

  std::shared_ptr<Head> head_;
};

// `key` must be a well-formed key of `events`.
uint8_t LaneOfEventKey(absl::string_view key);
absl::Time DueOfEventKey(absl::string_view key);

// Due rows are taken by rank: by priority with ageing, then by due time. Retries and catch-up have
// no priority.
using Rank = std::pair<uint8_t, absl::Time>;
inline constexpr uint8_t kNoPriority = kLaneRetry;
inline constexpr uint8_t kNothingDue = kNoPriority + 1;  // instead of a priority
// The rank at this time. `key` must be a well-formed key of `events`.
Rank RankOf(absl::string_view key, absl::Time now);

// DueQueue: the rows of one queue shard that are in memory, in segments, and the order in which
// they are taken.
//
// Rows of one standing are taken by rank. Each on-time lane (0–9) has a mark, set by the loader:
// rows before the mark are late and are taken beside background rows (retries, catch-up), so that a
// backlog does not delay events that are due now. While on-time rows are due, late and background
// rows together get at most every second event, and late rows get none before on-time rows of a
// lower number (with ageing). While late and background rows are due, they share evenly.
//
// Threads: one. Pure.
class DueQueue {
 public:
  // Replaces a row with the same key.
  void Add(QueuedRow row);
  void Remove(absl::string_view key);
  bool Contains(absl::string_view key) const;
  // `key` must be a well-formed key of `events`.
  uint8_t SegmentOf(absl::string_view key) const;

  // Makes the rows of an on-time lane before `mark` late. The mark only moves up.
  void MarkLate(uint8_t lane, std::string mark);
  // Removes the mark of the lane. The queue must have no late row of the lane.
  void EndLate(uint8_t lane);
  // The mark; empty if no row of the lane is late.
  const std::string& overdue_mark(uint8_t lane) const { return marks_[lane]; }

  // The due time of the next row after `now`. Rows that are due already wait for other things.
  std::optional<absl::Time> NextDue(absl::Time now) const;
  // The due time of the first on-time or late row.
  std::optional<absl::Time> FirstDue() const;
  // True if an on-time row is due by `until`. Other rows then get only their share.
  bool HasOnTimeDueBy(absl::Time until) const;

  using Segments = std::bitset<kSegmentCount>;
  // Takes the next row due at or before `until` from one of the segments. nullopt: none is due, or
  // NextPriority is greater than `priority_max`. Ranks are those at `until`.
  std::optional<QueuedRow> Take(absl::Time until, const Segments& takeable, uint8_t priority_max);
  // The priority, with ageing, that has its turn: that of the first on-time row, or of the first
  // late row if no on-time row is due; or else kNoPriority or kNothingDue.
  uint8_t NextPriority(absl::Time until, const Segments& takeable) const {
    return NextPriority(FirstsOf(until, takeable));
  }
  // Counts the events of the row just taken. Shares count events, not rows.
  void NoteTaken(Standing standing, uint64_t events);

  // The smallest key of the segment; nullopt if it is empty. Valid until the queue changes.
  std::optional<absl::string_view> FirstKey(uint8_t segment) const;
  // The greatest key of the segment; nullopt if it is empty. Valid until the queue changes.
  std::optional<absl::string_view> LastKey(uint8_t segment) const;
  // Drops the rows of the segment before `key`.
  void DropBefore(uint8_t segment, absl::string_view key);
  // Drops the last rows of the segment until at most `rows_max` are left. Returns the smallest
  // dropped key; empty if none.
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
  // Two kinds of rows that share evenly: events taken of each since both have been due.
  struct Share {
    uint64_t first = 0;
    uint64_t second = 0;
  };
  static constexpr uint8_t kNoSegment = kSegmentCount;
  // The first row of one standing.
  struct First {
    Rank rank = {kNothingDue, absl::InfiniteFuture()};
    uint8_t segment = kNoSegment;
  };
  using Firsts = std::array<First, 3>;  // by standing
  Firsts FirstsOf(absl::Time until, const Segments& takeable) const;
  static uint8_t NextPriority(const Firsts& firsts);
  // The due time of the segment's first row; InfiniteFuture if it is empty.
  absl::Time FirstDueOf(uint8_t segment) const;
  QueuedRow Pop(uint8_t segment);

  void NoteFilled(uint8_t segment) { filled_.set(segment, !segments_[segment].rows.empty()); }

  std::array<Segment, kSegmentCount> segments_;
  Segments filled_;  // the segments that have rows
  std::array<std::string, kLaneRetry> marks_;
  Share on_time_share_;  // first: on time; second: late and background
  Share late_share_;     // first: background; second: late
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_DUE_QUEUE_H_
