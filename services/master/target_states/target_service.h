// TargetService shows how the endpoints of events answer.
//
// ShowTarget: the status of one target, from the rows of the handlers that use it.
//
// Pure.

#ifndef SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_
#define SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/target_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

struct HandlerRow {
  std::string handler;
  storage::v1::TargetRowRecord record;
};

// `rows` is not empty, and in the order of the handlers.
v1::TargetStatus ShowTarget(const std::string& tenant, const Uid& target,
                            const std::vector<HandlerRow>& rows);

// ReadHeldTargets: those of the targets with these keys (TargetKeyOf) that a handler sees down, or
// that have asked a handler for a pause, by their keys. Handlers tell it at most two seconds later,
// and only of targets to which they have sent an event of the tenant lately.

struct HeldTarget {
  v1::TargetStatus status;
  absl::Time paused_until = absl::InfinitePast();  // the first handler's; InfinitePast: no pause
};
using HeldTargets = std::map<std::string, HeldTarget>;
void ReadHeldTargets(MasterContext& context, const std::string& tenant,
                     std::set<std::string> target_keys,
                     absl::AnyInvocable<void(absl::StatusOr<HeldTargets>)> done);

// Shows that a PENDING event, which is due, waits for this target.
void ShowTargetHeld(const HeldTarget& target, absl::Time now, v1::Event& event);

// TargetService: shows the rows that handlers write about their targets (target_states), and writes
// the rows that reset them.
//
// Threads: as master_apis.h.

class TargetService {
 public:
  // `context` outlives the service.
  explicit TargetService(MasterContext& context) : context_(context) {}

  void ListTargets(v1::ListTargetsRequest request, Done<v1::ListTargetsResponse> done);
  void GetTarget(v1::GetTargetRequest request, Done<v1::TargetStatus> done);
  void ResetTarget(v1::ResetTargetRequest request, Done<v1::TargetStatus> done);

 private:
  // NOT_FOUND if no handler has a row of it.
  void Read(const TargetName& name,
            absl::AnyInvocable<void(absl::StatusOr<v1::TargetStatus>)> done);

  MasterContext& context_;
};

// TargetSweep: the rows of `target_states` that their handlers have not written for long, because
// they are dead; for a SweepLoop.

std::vector<SweptRows> TargetSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TARGET_STATES_TARGET_SERVICE_H_
