// CancelRun: nothing more of a run is sent.
//
// A change of the schedule's state adds the run to StateRecord.cancelled_runs. From then on every
// claim and grant that was decided before is refused, and whoever judges a row of the run ends it
// (common/records/row_judge.h). Rows that wait in `parked` nobody judges, so this ends them, part
// by part, once the state forbids that others are parked. It is no change of the definition: the
// schedule's etag stays.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_RUN_CANCEL_H_
#define SERVICES_MASTER_RUNS_RUN_CANCEL_H_

#include "escapement/v1/run_service.pb.h"
#include "services/master/api/done.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Errors: those of the RPC. `validate_only`: decides and answers, writes nothing.
void CancelRunOfSchedule(MasterContext& context, RunName name, RequestMark mark, bool validate_only,
                         Done<v1::Run> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_CANCEL_H_
