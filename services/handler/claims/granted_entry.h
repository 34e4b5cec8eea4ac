// Turns the record of a granted claim into a Claim, and parts of it into outcomes.
//
// Pure.

#ifndef SERVICES_HANDLER_CLAIMS_GRANTED_ENTRY_H_
#define SERVICES_HANDLER_CLAIMS_GRANTED_ENTRY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "services/handler/claims/takeover.h"
#include "services/handler/ends/end_batch.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/row_resolver.h"

namespace escapement::handler {

// A range of open events of one entry of a granted claim.
struct GrantedPiece {
  std::shared_ptr<Claim> claim;
  uint32_t entry = 0;
  uint64_t first = 0;
  uint64_t count = 0;

  ClaimedEntry& claimed() const { return claim->entries[entry]; }
};

// Returns the claim with its entries and its count of open events, but without contexts, order and
// owner. Null if an entry cannot be read. Moves the records out of `left`.
std::shared_ptr<Claim> MakeGrantedClaim(LeftClaim& left);

// The open ranges of the claim.
std::vector<GrantedPiece> OpenPieces(const std::shared_ptr<Claim>& claim, const LeftClaim& left);

// The outcome of events that were not sent and go back to their token manager. `unreachable`: their
// target is the reason.
Outcome ReturnOutcome(const GrantedPiece& piece, absl::Time now, bool unreachable);

// How long a row may wait while its target is down, and how it ends.
//
// Pure.

// True if the events of the row are older than their retry policy's max_age. `down_for` is how long
// their target has been down. The age of an event that was never tried begins when its target went
// down, or at its due time if that is later. `row` is judged kSend.
bool IsHeldTooLong(const ResolvedRow& row, absl::Duration down_for, absl::Time now);

// The end of such a row: its first events fail, at most 1,000. Moves from `row`.
RowEnd EndOfHeldRow(ResolvedRow& row);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_GRANTED_ENTRY_H_
