// QueuedRow: a row of `events` in the handler's memory. It is one pointer and one allocation,
// because each lane of each shard may have thousands of rows.
//
// Threads: any, one at a time.

#ifndef SERVICES_HANDLER_SHARD_QUEUED_ROW_H_
#define SERVICES_HANDLER_SHARD_QUEUED_ROW_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"

namespace escapement::handler {

enum class Standing : uint8_t { kOnTime, kLate, kBackground };

struct ResolvedRow;

class QueuedRow {
 public:
  // `seq`: the commit number at which the row was read.
  QueuedRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq);

  // Do not call these on a row that has been moved from.
  absl::string_view key() const { return {text(), head_->key_bytes}; }  // in `events`
  absl::string_view value() const { return {text() + head_->key_bytes, head_->value_bytes}; }
  size_t bytes() const { return size_t{head_->key_bytes} + head_->value_bytes; }

  kv::CommitSeq seq() const { return head_->seq; }
  void set_seq(kv::CommitSeq seq) { head_->seq = seq; }

  // The row's standing when it was taken from the queue.
  Standing standing() const { return head_->standing; }
  void set_standing(Standing standing) { head_->standing = standing; }

  // Keeps the row's judgement (row_resolver.h) while the row waits for room. Not null.
  void KeepResolved(std::unique_ptr<ResolvedRow> resolved);
  std::unique_ptr<ResolvedRow> TakeResolved();  // null: none is kept

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
  // The bytes of key and value follow the head.
  const char* text() const { return reinterpret_cast<const char*>(head_.get() + 1); }

  std::unique_ptr<Head, Free> head_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_QUEUED_ROW_H_
