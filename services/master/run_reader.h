// Reads one run.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUN_READER_H_
#define SERVICES_MASTER_RUN_READER_H_

#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/master_context.h"
#include "services/master/resource_name.h"
#include "services/master/single_event.h"

namespace escapement::master {

struct StoredRun {
  Uid uid;
  std::optional<storage::v1::RunRecord> record;  // of many events
  storage::v1::RunPartRecord counts;             // of many: the sum of the parts
  SingleEvent single;                            // of one
};

// NOT_FOUND if there is no such schedule or run.
void ReadRun(MasterContext& context, RunName name,
             absl::AnyInvocable<void(absl::StatusOr<StoredRun>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUN_READER_H_
