// QueuedRow: a row of `events` in the handler's memory; a pointer wide, and one allocation, since
// there may be thousands of them for each lane of each shard.
//
// Threads: any, one at a time.

#ifndef SERVICES_HANDLER_INTAKE_QUEUED_ROW_H_
#define SERVICES_HANDLER_INTAKE_QUEUED_ROW_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"

namespace escapement::handler {

enum class Standing : uint8_t { kOnTime, kOverdue, kBackground };

struct ResolvedRow;

class QueuedRow {
 public:
  // `seq`: at which the row was seen.
  QueuedRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq);

  // What follows is not to be asked of a row that has been moved from.
  absl::string_view key() const { return {text(), head_->key_bytes}; }  // of `events`
  absl::string_view value() const { return {text() + head_->key_bytes, head_->value_bytes}; }
  size_t bytes() const { return size_t{head_->key_bytes} + head_->value_bytes; }

  kv::CommitSeq seq() const { return head_->seq; }
  void set_seq(kv::CommitSeq seq) { head_->seq = seq; }

  // When it was taken from the queue.
  Standing standing() const { return head_->standing; }
  void set_standing(Standing standing) { head_->standing = standing; }

  // What it was judged to be, if it has been (row_resolver.h): it only waits for room.
  void KeepResolved(std::unique_ptr<ResolvedRow> resolved);
  std::unique_ptr<ResolvedRow> TakeResolved();  // null: it has not been

 private:
  struct Head {
    kv::CommitSeq seq;
    ResolvedRow* resolved;  // owned
    uint32_t value_bytes;
    uint16_t key_bytes;
    Standing standing;
  };
  struct Free {
    void operator()(Head* head) const;
  };
  // Key and value are behind the head.
  const char* text() const { return reinterpret_cast<const char*>(head_.get() + 1); }

  std::unique_ptr<Head, Free> head_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_INTAKE_QUEUED_ROW_H_
