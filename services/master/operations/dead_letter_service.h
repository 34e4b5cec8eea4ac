// DeadLetterService: events that failed for good, and what becomes of them.
//
// Threads: as master_apis.h.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_

#include <atomic>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/storage/name_tables.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/base/metrics.h"
#include "services/master/operations/operation_loop.h"
#include "services/master/operations/redrive_batch.h"
#include "services/master/requests/request_table.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

class DeadLetterService {
 public:
  // `context` and `loop` outlive the service. `retention`: how long dead letters are kept.
  DeadLetterService(MasterContext& context, const OperationLoop& loop, absl::Duration retention)
      : context_(context), loop_(loop), retention_(retention) {}

  void ListDeadLetters(v1::ListDeadLettersRequest request, Done<v1::ListDeadLettersResponse> done);
  void ListDeadLetterGroups(v1::ListDeadLetterGroupsRequest request,
                            Done<v1::ListDeadLetterGroupsResponse> done);
  void GetDeadLetter(v1::GetDeadLetterRequest request, Done<v1::DeadLetter> done);
  void RedriveDeadLetter(v1::RedriveDeadLetterRequest request, Done<v1::Event> done);
  void RedriveDeadLetters(v1::RedriveDeadLettersRequest request, Done<v1::Operation> done);
  void RedriveRun(v1::RedriveRunRequest request, Done<v1::Operation> done);
  void PurgeDeadLetters(v1::PurgeDeadLettersRequest request,
                        Done<v1::PurgeDeadLettersResponse> done);

 private:
  MasterContext& context_;
  const OperationLoop& loop_;
  const absl::Duration retention_;
  std::atomic<int> groupings_ = 0;  // calls of ListDeadLetterGroups under way
};

// DeadLetterSweep: dead letters that are older than their retention, and operations that ended long
// ago; for a SweepLoop.

// `metrics` outlives the loop.
std::vector<SweptRows> DeadLetterSweep(absl::Duration retention, MasterMetrics& metrics);

// RedriveDeadLetter: reads the dead letter, decides and commits, again while races are lost.
//
// Threads: the callback runs on the context's executor.

// Errors: those of the RPC. `validate_only`: decides and answers, writes nothing.
void RedriveOne(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
                Done<v1::Event> done);

// Reads what a redrive needs to know about dead letters.
//
// Threads: the callback runs on the context's executor.

// The rows of RedriveFactKeys of all letters, of one snapshot. Without letters it calls back at
// once.
void ReadRedriveFacts(MasterContext& context, const std::vector<StoredDeadLetter>& letters,
                      absl::AnyInvocable<void(absl::StatusOr<RedriveFacts>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_
