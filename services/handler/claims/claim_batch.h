// ClaimBatch: builds the one group that claims many rows.
//
// Conditions: each row present, each schedule's state as it was judged. Mutations: rows of
// schedules are deleted or replaced by their remainder, rows of one-off events stay; the claim in
// `inflight` lists what was taken.
//
// Pure: adds to a batch, decides nothing.

#ifndef SERVICES_HANDLER_CLAIMS_CLAIM_BATCH_H_
#define SERVICES_HANDLER_CLAIMS_CLAIM_BATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/records/record_cache.h"
#include "services/handler/claims/claim.h"
#include "services/handler/intake/due_queue.h"

namespace escapement::handler {

// A claim that is being committed.
struct PendingClaim {
  std::shared_ptr<Claim> claim;
  std::vector<QueuedRow> rows;        // by entry: as they were taken from the queue
  std::vector<IndexSlice> taken;      // by entry
  std::vector<QueuedRow> remainders;  // rows that the group writes
};

class ClaimBatch {
 public:
  // For at most so many events; perhaps of as many rows as `rows_expected`.
  ClaimBatch(std::shared_ptr<Claim> claim, uint64_t events_max, size_t rows_expected);

  // Whether deliveries with that timeout may be claimed with these: if this handler is lost, who
  // takes over from it waits for the longest of a claim's deliveries before it sends any of them.
  bool Fits(absl::Duration timeout) const;

  // Takes the first `count` events of the row. `state` is null for one-off events.
  void Add(QueuedRow row, ClaimedEntry&& entry, uint64_t count, const CachedState* state);

  size_t rows() const { return pending_.rows.size(); }
  // For further events.
  uint64_t room() const { return events_max_ - events_; }
  size_t bytes() const { return bytes_; }
  // Of the rows as they are in the queue, payloads of one-off events included.
  size_t row_bytes() const { return row_bytes_; }

  // Once, when something has been added.
  kv::Group TakeGroup(int64_t now_micros);
  PendingClaim TakePending() { return std::move(pending_); }

 private:
  void AppendToRecord(ClaimedEntry& entry, uint64_t count);
  void TakeFromRow(const ClaimedEntry& entry, uint64_t count);

  const uint64_t events_max_;
  const size_t rows_expected_;
  absl::Duration timeout_min_ = absl::InfiniteDuration();
  PendingClaim pending_;
  kv::Group group_;
  std::string record_;                     // a ClaimRecord, entry by entry
  storage::v1::ClaimRecord::Entry entry_;  // reused
  uint64_t events_ = 0;
  size_t bytes_ = 0;
  size_t row_bytes_ = 0;
  Uid last_state_;
  bool has_one_off_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_CLAIM_BATCH_H_
