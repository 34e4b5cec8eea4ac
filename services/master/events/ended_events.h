// ListEndedEvents: one page of the one-off events that have ended, by their end.
//
// They are rows of `done`, among those of schedules. No index has the order of their ends: each
// shard has its rows by the day on which their events were first due, and within a day by uid.
// Therefore the list goes on piece by piece. A piece is the next kListSortedMax rows of all shards,
// in the order of their days. Its events are sorted by their end. A page that ends within a piece
// says so in its position, and the next page reads the piece again.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EVENTS_ENDED_EVENTS_H_
#define SERVICES_MASTER_EVENTS_ENDED_EVENTS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_query.h"

namespace escapement::master {

// INVALID_ARGUMENT (page_token) if the position is malformed.
void ListEndedEvents(MasterContext& context, EventQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_ENDED_EVENTS_H_
