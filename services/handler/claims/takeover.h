// PlanTakeover: finds the events that former owners of a queue shard have claimed and not ended,
// and when they may be sent again.
//
// Pure: takes the rows of `inflight`.

#ifndef SERVICES_HANDLER_CLAIMS_TAKEOVER_H_
#define SERVICES_HANDLER_CLAIMS_TAKEOVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_id.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/claim_takeover.pb.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

// How many rows with payloads are read at once: a row may have 256 KiB of payload, and an answer
// holds kv::kMultiGetBytesMax.
inline constexpr size_t kPayloadsAtOnce = 100;

struct LeftEntry {
  storage::v1::ClaimRecord::Entry record;
  std::vector<IndexSlice> open;  // ascending; empty if all events have ended
};

// A claim that another handler had, or that a token manager has just made.
struct LeftClaim {
  ClaimId id;
  int64_t claim_time_micros = 0;
  int64_t timeout_max_micros = 0;
  uint32_t ends_written = 0;  // the numbers of its end rows are smaller
  std::vector<LeftEntry> entries;
  bool has_takeover_row = false;              // a ClaimTakeoverRecord may exist
  storage::v1::ClaimTakeoverRecord takeover;  // the record; empty if there is none

  // True if a handler was lost while it was sending an event of the slice alone: takeover.trial().
  bool IsQuarantined(uint32_t entry, const IndexSlice& slice) const {
    const auto& trial = takeover.trial();
    return trial.lost() && trial.entry() == entry && trial.index() >= slice.first &&
           trial.index() - slice.first < slice.count;
  }
};

struct Takeover {
  std::vector<LeftClaim> claims;  // in key order; each has an open event
  // Rows to delete: ends without a claim, and claims whose events have all ended.
  std::vector<std::string> garbage_keys;
  // Claims that cannot be read. They stay in the store: no other row has their events.
  size_t broken = 0;
};

// The shard's previous owner.
struct FormerOwner {
  absl::Time end;  // HeldLease::former_owner_end
  // HeldLease::former_owner_lost, or it went before it noted that the owner before it was lost.
  bool lost = false;
  bool dead = false;    // HeldLease::former_owner_dead
  bool marked = false;  // it has noted which claims were left by others (TakeoverMarkKey)
};
// Notes in the claim that its owner has changed, unless an earlier change is noted: the owner in
// between has then not adopted it. Returns true if the claim's record must be written.
bool NoteFormerOwner(const FormerOwner& former, LeftClaim& claim);
// Returns the time from which on no attempt of the claim can be under way. The claim must have a
// former owner noted. `margin` covers the time from a lease check to the last byte on the wire.
absl::Time QuietFrom(const LeftClaim& claim, absl::Duration margin);

Takeover PlanTakeover(const std::vector<kv::Entry>& inflight);

// Returns the parts of `from` that are not in `without`, ascending.
std::vector<IndexSlice> Subtract(std::vector<IndexSlice> from, std::vector<IndexSlice> without);

// ScanInflight: reads all claims of a queue shard and their ends, page by page.
//
// Threads: one, the handler's executor.

// `seq` is the snapshot of the last page: later commits were not seen.
using InflightScanned = std::function<void(std::vector<kv::Entry> inflight, kv::CommitSeq seq)>;

// `done` is not called once the shard is gone.
void ScanInflight(QueueShardState& state, InflightScanned done);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_TAKEOVER_H_
