// The RPCs of EventService: unary calls and the Ingest stream.
//
// Ingest: batches are read ahead of their answers, at most kIngestOutstandingMax at once, and
// answered in their order. The stream keeps the parent and the defaults that were given last. A
// refused batch is answered with its error and does not end the stream, but UNAVAILABLE does:
// another master may serve.

#ifndef SERVICES_MASTER_EVENTS_EVENT_GRPC_H_
#define SERVICES_MASTER_EVENTS_EVENT_GRPC_H_

#include "services/master/api/master_apis.h"

namespace escapement {
class RpcTable;
}

namespace escapement::master {

// `events` outlives the server.
void AddEventRpcs(EventApi& events, RpcTable& table);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_GRPC_H_
