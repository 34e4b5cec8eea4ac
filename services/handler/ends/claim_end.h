// ClaimEndOf: the record which events of a claim have ended.
//
// Pure.

#ifndef SERVICES_HANDLER_ENDS_CLAIM_END_H_
#define SERVICES_HANDLER_ENDS_CLAIM_END_H_

#include "absl/types/span.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/sending/claim.h"

namespace escapement::handler {

// The outcomes must be of one claim, in the order of entries and events.
storage::v1::ClaimEndRecord ClaimEndOf(absl::Span<const Outcome> outcomes);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_CLAIM_END_H_
