// Finds out which occurrences of a backfill have fired, or are about to.
//
// First their run and Done records, then the rows of only events and launch records (where the
// schedule's present version puts them, and where the last kFormerVersionsMax before it have put
// them), then, of what was in none of these places, the holders of tokens, claims and retries.
// Claims are read before and after the retries: an event that goes from one to the other meanwhile
// is seen. Parked rows are read last, since an event that is parked stays there. Of each place at
// most kLookupRowsMax rows are read.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/master_context.h"
#include "services/master/schedules/changes/backfill_decision.h"

namespace escapement::master {

// Fills `present` and `done` of the scope's occurrences; of its carriers by their records only.
void ReadBackfill(MasterContext& context, BackfillScope scope,
                  absl::AnyInvocable<void(absl::StatusOr<BackfillScope>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_READER_H_
