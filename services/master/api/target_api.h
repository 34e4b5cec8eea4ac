// TargetApi: what the master promises about the status of targets. The contract of each method is
// that of its RPC in escapement/v1/target_service.proto; errors carry the details of
// common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see common/rpc/done.h for the
// answers.

#ifndef SERVICES_MASTER_API_TARGET_API_H_
#define SERVICES_MASTER_API_TARGET_API_H_

#include "escapement/v1/target_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class TargetApi {
 public:
  virtual ~TargetApi() = default;

  virtual void ListTargets(v1::ListTargetsRequest request, Done<v1::ListTargetsResponse> done) = 0;
  virtual void GetTarget(v1::GetTargetRequest request, Done<v1::TargetStatus> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_TARGET_API_H_
