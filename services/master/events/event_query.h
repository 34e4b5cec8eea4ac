// The question and the answer of both lists of one-off events.

#ifndef SERVICES_MASTER_EVENTS_EVENT_QUERY_H_
#define SERVICES_MASTER_EVENTS_EVENT_QUERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_filter.h"

namespace escapement::master {

struct EventQuery {
  std::string tenant;
  bool descending = false;
  size_t page_size = 0;
  std::string position;  // ShownEvents::next of the page before; empty: from the beginning
  ListFilter filter;
  std::optional<uint16_t> shard = std::nullopt;  // for ListPendingEvents: of one queue shard only
};

struct ShownEvents {
  std::vector<v1::Event> events;  // without payloads
  std::string next;               // where the list goes on; empty at the end
};

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

void ListPendingEvents(MasterContext& context, EventQuery query,
                       absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done);

// ListEndedEvents: one page of the one-off events that have ended, by their end.
//
// They are rows of `done`, among those of schedules. No index has the order of their ends: each
// shard has its rows by the day on which their events were first due, and within a day by uid.
// Therefore the list goes on piece by piece. A piece is the next kListSortedMax rows of all shards,
// in the order of their days. Its events are sorted by their end. A page that ends within a piece
// says so in its position, and the next page reads the piece again.
//
// Threads: the callback runs on the context's executor.

// INVALID_ARGUMENT (page_token) if the position is malformed.
void ListEndedEvents(MasterContext& context, EventQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<ShownEvents>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_QUERY_H_
