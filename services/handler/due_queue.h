// DueQueue: the rows of one queue shard that are in memory, by lane, and the order in which they
// are taken.
//
// On-time work (lanes 0–9) goes in order of due time, then priority. The background lanes (retries,
// catch-up) are taken in the same order among themselves and, while on-time work is due too, get at
// most every second event.
//
// Threads: one. Pure.

#ifndef SERVICES_HANDLER_DUE_QUEUE_H_
#define SERVICES_HANDLER_DUE_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_table.h"

namespace escapement::handler {

struct QueuedRow {
  std::string key;        // of `events`
  std::string value;      // EventRecord
  kv::CommitSeq seq = 0;  // at which the row was seen
};

// Of a well-formed `events` key.
uint8_t LaneOfEventKey(absl::string_view key);
absl::Time DueOfEventKey(absl::string_view key);

class DueQueue {
 public:
  // Replaces a row of the same key.
  void Add(QueuedRow row);
  void Remove(absl::string_view key);
  bool Contains(absl::string_view key) const;

  // The due time of the earliest row.
  std::optional<absl::Time> NextDue() const;

  // Takes the next row due at or before `until`.
  std::optional<QueuedRow> Take(absl::Time until);
  // The row just taken stood for this many events (the share of the background counts events, not
  // rows).
  void NoteTaken(absl::string_view key, uint64_t events);

  // Drops the rows of the lane that are due last until no more than `rows_max` are left. Returns
  // the smallest key that was dropped; empty if none.
  std::string DropLast(uint8_t lane, size_t rows_max);

  size_t rows(uint8_t lane) const { return lanes_[lane].rows.size(); }
  size_t bytes(uint8_t lane) const { return lanes_[lane].bytes; }
  size_t rows() const;

 private:
  struct Value {
    std::string value;
    kv::CommitSeq seq = 0;
  };
  struct Lane {
    absl::btree_map<std::string, Value> rows;
    size_t bytes = 0;
  };
  // The lane of [begin, end) whose first row is due first (of equal ones the lowest); kLaneCount if
  // all are empty.
  uint8_t FirstLane(uint8_t begin, uint8_t end) const;
  bool DueBy(uint8_t lane, absl::Time until) const;
  QueuedRow Pop(uint8_t lane);

  std::array<Lane, kLaneCount> lanes_;
  // Events taken since both kinds of work began to compete.
  uint64_t on_time_taken_ = 0;
  uint64_t background_taken_ = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DUE_QUEUE_H_
