// ListPendingEvents: one page of the one-off events that have not ended, in the order in which they
// are due.
//
// They are rows of `events`, among those of schedules. A row stays there while it is claimed. Each
// shard and lane is in the order of due times, so a MergedScan over all of them gives that order.
// The due time in the key is when the next attempt is due: for a late event the time of its
// creation, for a retry the end of its backoff.
//
// The claims of a shard are read once, when a row that may be claimed is found in it.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EVENTS_PENDING_EVENTS_H_
#define SERVICES_MASTER_EVENTS_PENDING_EVENTS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_query.h"

namespace escapement::master {

void ListPendingEvents(MasterContext& context, EventQuery query,
                       absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_PENDING_EVENTS_H_
