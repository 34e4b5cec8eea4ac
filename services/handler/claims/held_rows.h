// How long a row may wait while its target is down, and how it ends.
//
// Pure.

#ifndef SERVICES_HANDLER_CLAIMS_HELD_ROWS_H_
#define SERVICES_HANDLER_CLAIMS_HELD_ROWS_H_

#include "absl/time/time.h"
#include "services/handler/ends/end_batch.h"
#include "services/handler/shard/row_resolver.h"

namespace escapement::handler {

// True if the events of the row are older than their retry policy's max_age. `down_for` is how long
// their target has been down. The age of an event that was never tried begins when its target went
// down, or at its due time if that is later. `row` is judged kSend.
bool IsHeldTooLong(const ResolvedRow& row, absl::Duration down_for, absl::Time now);

// The end of such a row: its first events fail, at most 1,000. Moves from `row`.
RowEnd EndOfHeldRow(ResolvedRow& row);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_HELD_ROWS_H_
