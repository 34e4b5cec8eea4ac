// Reads what a redrive needs to know about dead letters.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_OPERATIONS_REDRIVE_READER_H_
#define SERVICES_MASTER_OPERATIONS_REDRIVE_READER_H_

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/redrive_batch.h"

namespace escapement::master {

// The rows of RedriveFactKeys of all letters, of one snapshot. Without letters it calls back at
// once.
void ReadRedriveFacts(MasterContext& context, const std::vector<StoredDeadLetter>& letters,
                      absl::AnyInvocable<void(absl::StatusOr<RedriveFacts>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_REDRIVE_READER_H_
