// From an entry of a granted claim's record to what is sent and reported.
//
// Pure.

#ifndef SERVICES_HANDLER_GRANTED_GRANTED_ENTRY_H_
#define SERVICES_HANDLER_GRANTED_GRANTED_ENTRY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "services/handler/claims/claim.h"
#include "services/handler/claims/takeover.h"

namespace escapement::handler {

// Events of a granted claim that have not ended.
struct GrantedPiece {
  std::shared_ptr<Claim> claim;
  uint32_t entry = 0;
  uint64_t first = 0;
  uint64_t count = 0;

  ClaimedEntry& claimed() const { return claim->entries[entry]; }
};

// The claim with its entries, still without contexts, order and owner; `open` is counted. Null if
// an entry cannot be read. Takes the records out of `left`.
std::shared_ptr<Claim> MakeGrantedClaim(LeftClaim& left);

// What of it is open.
std::vector<GrantedPiece> OpenPieces(const std::shared_ptr<Claim>& claim, const LeftClaim& left);

// Not sent: it is to wait again as if it had not been granted. `unreachable`: for want of its
// target.
Outcome Returned(const GrantedPiece& piece, absl::Time now, bool unreachable);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_GRANTED_GRANTED_ENTRY_H_
