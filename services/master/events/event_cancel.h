// Ends a one-off event that has not been claimed as CANCELLED.
//
// The row of a claimed one-off event stays in `events`. So the commit deletes the row on condition
// that it is present and that no claim of the shard was made since the claims were read
// (ClaimMarkKey, common/storage/inflight_table.h). The claim has the condition that the row is
// present, so the first commit wins.

#ifndef SERVICES_MASTER_EVENTS_EVENT_CANCEL_H_
#define SERVICES_MASTER_EVENTS_EVENT_CANCEL_H_

#include "escapement/v1/resources.pb.h"
#include "services/master/api/done.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

void CancelOneOffEvent(MasterContext& context, EventName name, RequestMark mark, bool validate_only,
                       Done<v1::Event> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_CANCEL_H_
