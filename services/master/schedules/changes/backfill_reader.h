// Finds out which occurrences of a backfill have fired, or are about to.
//
// It reads in this order:
//  1. run and Done records;
//  2. rows of only events, and launch records, at the places of the present version and of former
//  ones (row_places.h);
//  3. for occurrences that were in none of these places: holders of tokens, claims and retries.
//  Claims are read before and after the retries, so an event that moves between them is seen;
//  4. parked rows, last, since a parked event stays parked.
// At most kLookupRowsMax rows of each place are read.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/schedules/changes/backfill_decision.h"

namespace escapement::master {

// Fills `present` and `done` of the scope's occurrences; of its carriers by their records only.
void ReadBackfill(MasterContext& context, BackfillScope scope,
                  absl::AnyInvocable<void(absl::StatusOr<BackfillScope>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_
