// PolicyTransaction: one change of a throttling policy: read → decide → commit, again from the read
// while races are lost. A remembered answer (request_id) is given before anything is decided.
//
// Threads: runs on the context's executor.

#ifndef SERVICES_MASTER_POLICIES_POLICY_TRANSACTION_H_
#define SERVICES_MASTER_POLICIES_POLICY_TRANSACTION_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "services/master/master_context.h"
#include "services/master/policies/policy_decisions.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct PolicyChange {
  PolicyName name;
  RequestMark mark;
  // Called with what was read, once for each try.
  absl::AnyInvocable<absl::StatusOr<PolicyDecision>(const PolicyInput& input)> decide = nullptr;
  std::unique_ptr<google::protobuf::Message> response = nullptr;  // an empty one of the RPC's type
  // Decide, check the group's conditions that refuse a change, and answer; write nothing.
  bool validate_only = false;
};

using PolicyChanged =
    absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<google::protobuf::Message>>)>;

// ABORTED (CONTENDED) after too many lost races.
void ChangePolicy(MasterContext& context, PolicyChange change, PolicyChanged done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_TRANSACTION_H_
