// DeadLetterService: events that failed for good, and what becomes of them.
//
// Threads: as DeadLetterApi. No state.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_

#include "absl/time/time.h"
#include "services/master/api/dead_letter_api.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/operation_loop.h"

namespace escapement::master {

class DeadLetterService final : public DeadLetterApi {
 public:
  // `context` and `loop` outlive the service. `retention`: how long dead letters are kept.
  DeadLetterService(MasterContext& context, const OperationLoop& loop, absl::Duration retention)
      : context_(context), loop_(loop), retention_(retention) {}

  void ListDeadLetters(v1::ListDeadLettersRequest request,
                       Done<v1::ListDeadLettersResponse> done) override;
  void GetDeadLetter(v1::GetDeadLetterRequest request, Done<v1::DeadLetter> done) override;
  void RedriveDeadLetter(v1::RedriveDeadLetterRequest request, Done<v1::Event> done) override;
  void RedriveDeadLetters(v1::RedriveDeadLettersRequest request, Done<v1::Operation> done) override;
  void RedriveRun(v1::RedriveRunRequest request, Done<v1::Operation> done) override;
  void PurgeDeadLetters(v1::PurgeDeadLettersRequest request,
                        Done<v1::PurgeDeadLettersResponse> done) override;

 private:
  MasterContext& context_;
  const OperationLoop& loop_;
  const absl::Duration retention_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SERVICE_H_
