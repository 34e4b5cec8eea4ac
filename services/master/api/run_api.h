// RunApi: what the master promises about runs. The contract of each method is that of its RPC in
// escapement/v1/run_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_RUN_API_H_
#define SERVICES_MASTER_API_RUN_API_H_

#include "escapement/v1/run_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class RunApi {
 public:
  virtual ~RunApi() = default;

  virtual void ListRuns(v1::ListRunsRequest request, Done<v1::ListRunsResponse> done) = 0;
  virtual void GetRun(v1::GetRunRequest request, Done<v1::Run> done) = 0;
  virtual void ListRunEvents(v1::ListRunEventsRequest request,
                             Done<v1::ListRunEventsResponse> done) = 0;
  virtual void CancelRun(v1::CancelRunRequest request, Done<v1::Run> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_RUN_API_H_
