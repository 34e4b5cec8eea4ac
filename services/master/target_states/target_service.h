// TargetService: shows the rows that handlers write about their targets (target_states).
//
// Threads: as TargetApi.

#ifndef SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_
#define SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_

#include "services/master/api/target_api.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class TargetService final : public TargetApi {
 public:
  // `context` outlives the service.
  explicit TargetService(MasterContext& context) : context_(context) {}

  void ListTargets(v1::ListTargetsRequest request, Done<v1::ListTargetsResponse> done) override;
  void GetTarget(v1::GetTargetRequest request, Done<v1::TargetStatus> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_
