// DeadLetterApi: what the master promises about dead letters. The contract of each method is that
// of its RPC in escapement/v1/dead_letter_service.proto; errors carry the details of
// common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_DEAD_LETTER_API_H_
#define SERVICES_MASTER_API_DEAD_LETTER_API_H_

#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class DeadLetterApi {
 public:
  virtual ~DeadLetterApi() = default;

  virtual void ListDeadLetters(v1::ListDeadLettersRequest request,
                               Done<v1::ListDeadLettersResponse> done) = 0;
  virtual void GetDeadLetter(v1::GetDeadLetterRequest request, Done<v1::DeadLetter> done) = 0;
  virtual void RedriveDeadLetter(v1::RedriveDeadLetterRequest request, Done<v1::Event> done) = 0;
  virtual void RedriveDeadLetters(v1::RedriveDeadLettersRequest request,
                                  Done<v1::Operation> done) = 0;
  virtual void RedriveRun(v1::RedriveRunRequest request, Done<v1::Operation> done) = 0;
  virtual void PurgeDeadLetters(v1::PurgeDeadLettersRequest request,
                                Done<v1::PurgeDeadLettersResponse> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_DEAD_LETTER_API_H_
