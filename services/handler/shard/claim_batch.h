// ClaimBatch: builds the group that claims many rows. GrantReports: reports how granted events have
// ended.

#ifndef SERVICES_HANDLER_SHARD_CLAIM_BATCH_H_
#define SERVICES_HANDLER_SHARD_CLAIM_BATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/message_writer.h"
#include "common/kv/kv_store.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/due_queue.h"

namespace escapement::handler {

// A claim that is being committed.
struct PendingClaim {
  std::shared_ptr<Claim> claim;
  std::vector<QueuedRow> rows;        // by entry: the rows as they were in the queue
  std::vector<IndexSlice> taken;      // by entry: the claimed events
  std::vector<QueuedRow> remainders;  // rows that the group writes
};

// ClaimBatch: builds the one group that claims many rows.
//
// Conditions: each row is present, and each schedule has the state of the judgement. Mutations: a
// schedule's row is deleted or replaced by its remainder, a one-off event's row stays, and the
// claim in `inflight` lists the events.
//
// Pure: adds to a batch, decides nothing.
class ClaimBatch {
 public:
  struct Bounds {
    size_t rows = 0;
    uint64_t events = 0;
  };
  // `rows_expected` only reserves memory.
  ClaimBatch(std::shared_ptr<Claim> claim, Bounds max, size_t rows_expected);

  // True if deliveries with this timeout may share the claim. After a crash the next owner waits
  // for the longest timeout of a claim before it sends any event of the claim.
  bool Fits(absl::Duration timeout) const;

  // Claims the first `count` events of the row. `state` is null for one-off events.
  void Add(QueuedRow row, ClaimedEntry&& entry, uint64_t count, const CachedState* state);

  size_t rows() const { return pending_.rows.size(); }
  // How many more events may be added.
  uint64_t room() const { return max_.events - events_; }
  // True if it should be committed before another row is added.
  bool full() const;

  // Call it once, after at least one Add.
  kv::Group TakeGroup(int64_t now_micros);
  PendingClaim TakePending() { return std::move(pending_); }

 private:
  void AppendToRecord(const ClaimedEntry& entry, uint64_t count);
  void TakeFromRow(const ClaimedEntry& entry, uint64_t count);

  static constexpr size_t kEntryBytesUsual = 128;

  const Bounds max_;
  const size_t rows_expected_;
  absl::Duration timeout_min_ = absl::InfiniteDuration();
  PendingClaim pending_;
  kv::Group group_;
  MessageWriter record_;                                   // a ClaimRecord, entry by entry
  MessageWriter entry_ = MessageWriter(kEntryBytesUsual);  // its memory is used for each entry
  uint64_t events_ = 0;
  size_t bytes_ = 0;
  size_t row_bytes_ = 0;  // the queued rows, with payloads of one-off events
  Uid last_state_;
  bool has_one_off_ = false;
};

// Names the rows of one commit.
struct ReportOrigin {
  uint16_t shard = 0;   // the queue shard
  uint64_t epoch = 0;   // the epoch of the shard's lease
  uint64_t number = 0;  // counts the shard's commits in that epoch
};

// The kind with which the outcome of a granted event is reported.
storage::v1::GrantReportRecord::Kind ReportKindOf(const EntryGrant& grant, const Outcome& outcome);

// GrantReports: reports the outcomes of granted events to the owners of their policy shards, as one
// row in `waiting` per policy shard and commit.
//
// Pure: adds to a group, decides nothing.
class GrantReports {
 public:
  // Adds `count` events of a granted entry, from first.first on, that have ended in the same way.
  // `last` is the outcome of the last of them.
  void Add(const ClaimedEntry& entry, const Outcome& first, const Outcome& last, uint64_t count);

  void Put(const ReportOrigin& origin, kv::Group& group) const;

 private:
  std::map<uint16_t, storage::v1::GrantReportRecord> by_shard_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_CLAIM_BATCH_H_
