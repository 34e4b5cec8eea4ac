// OffsetTracker: which messages of one partition have an answer, and up to where the partition's
// offset may be committed.
//
// Messages are answered in any order. The committed offset never passes one without an answer.
//
// A plain value; one thread at a time.

#ifndef SERVICES_MASTER_INGEST_KAFKA_OFFSET_TRACKER_H_
#define SERVICES_MASTER_INGEST_KAFKA_OFFSET_TRACKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace escapement::master {

class OffsetTracker {
 public:
  // Offsets go up. They may have gaps: compacted topics and transactions leave them.
  void Add(int64_t offset) {
    CHECK(offset > last_);
    messages_.push_back({offset, false});
    last_ = offset;
  }

  // The message has its answer. It was added, and has had none before.
  void Finish(int64_t offset) {
    const auto found = std::lower_bound(
        messages_.begin(), messages_.end(), offset,
        [](const Message& message, int64_t wanted) { return message.offset < wanted; });
    CHECK(found != messages_.end() && found->offset == offset && !found->finished);
    found->finished = true;
    while (!messages_.empty() && messages_.front().finished) messages_.pop_front();
    const int64_t next = messages_.empty() ? last_ + 1 : messages_.front().offset;
    moved_ |= next_ != next;
    next_ = next;
  }

  // The offset to commit: that of the next message to read. nullopt if it is as at the last call.
  std::optional<int64_t> TakeCommittable() {
    if (!std::exchange(moved_, false)) return std::nullopt;
    return next_;
  }

  // The last offset that was added; -1: none.
  int64_t last() const { return last_; }
  // All offsets before it have an answer; -1: not known.
  int64_t next() const { return next_; }
  // The first offset without an answer. There is one.
  int64_t first() const { return messages_.front().offset; }
  // Messages from that one on.
  size_t size() const { return messages_.size(); }

 private:
  struct Message {
    int64_t offset = 0;
    bool finished = false;
  };
  std::deque<Message> messages_;
  int64_t last_ = -1;
  int64_t next_ = -1;
  bool moved_ = false;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_OFFSET_TRACKER_H_
