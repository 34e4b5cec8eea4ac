// Reads one run.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_RUN_READER_H_
#define SERVICES_MASTER_RUNS_RUN_READER_H_

#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/single_event.h"

namespace escapement::master {

struct StoredRun {
  OccurrenceSource source;  // the schedule's present definition
  std::optional<storage::v1::RunRecord>
      record;                         // if the run has many events, or its schedule has on_complete
  storage::v1::RunPartRecord counts;  // with a record: the sum of the parts
  SingleEvent single;                 // without a record
};

// NOT_FOUND if there is no such schedule or run.
void ReadRun(MasterContext& context, RunName name,
             absl::AnyInvocable<void(absl::StatusOr<StoredRun>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_READER_H_
