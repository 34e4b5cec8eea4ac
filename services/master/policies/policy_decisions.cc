#include "services/master/policies/policy_decisions.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/base/errors.h"
#include "services/master/policies/policy_codec.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

absl::Status CheckCurrent(const PolicyInput& input, const std::string& etag) {
  if (!input.current.has_value()) return NotFound(input.name.ToString());
  return CheckEtag(etag, PolicyEtag(*input.current), input.name.ToString());
}

std::string KeyOf(const PolicyInput& input) {
  return PolicyKey(input.name.tenant, input.name.policy);
}

void RequireUnchanged(const PolicyInput& input, PolicyDecision& decision) {
  decision.group.conditions.push_back({.cf = ColumnFamily::kPolicies,
                                       .key = KeyOf(input),
                                       .kind = kv::Condition::Kind::kValueEquals,
                                       .value = input.bytes});
  decision.refusals.push_back(absl::OkStatus());
  decision.version_before = input.current->version();
}

void RequireEmpty(ColumnFamily cf, std::string begin, std::string end, absl::Status refusal,
                  PolicyDecision& decision) {
  decision.group.conditions.push_back({.cf = cf,
                                       .key = std::move(begin),
                                       .kind = kv::Condition::Kind::kRangeCount,
                                       .value = std::move(end),
                                       .number = 0});
  decision.refusals.push_back(std::move(refusal));
}

// Completes the decision: `next` is stored and shown.
PolicyDecision Store(const PolicyInput& input, storage::v1::PolicyRecord next,
                     PolicyDecision decision) {
  next.set_tenant(input.name.tenant);
  next.set_policy_id(input.name.policy);
  next.set_by_tenant(!input.current.has_value() || input.current->by_tenant());
  next.set_version(input.current.has_value() ? input.current->version() + 1 : 1);
  next.set_create_time_micros(input.current.has_value() ? input.current->create_time_micros()
                                                        : ToMicros(input.now));
  next.set_update_time_micros(ToMicros(input.now));
  decision.group.mutations.push_back(
      {.cf = ColumnFamily::kPolicies, .key = KeyOf(input), .value = next.SerializeAsString()});
  decision.response = std::make_unique<v1::ThrottlePolicy>(ShowPolicy(next));
  return decision;
}

PolicyDecision Replace(const PolicyInput& input, storage::v1::PolicyRecord next) {
  PolicyDecision decision;
  RequireUnchanged(input, decision);
  return Store(input, std::move(next), std::move(decision));
}

}  // namespace

absl::StatusOr<PolicyDecision> DecideCreatePolicy(const PolicyInput& input,
                                                  const storage::v1::PolicyRecord& draft) {
  if (input.current.has_value()) return AlreadyExists(input.name.ToString());
  PolicyDecision decision;
  // A race with another creation: read again, since it may have been this very request.
  decision.group.conditions.push_back(
      {.cf = ColumnFamily::kPolicies, .key = KeyOf(input), .kind = kv::Condition::Kind::kAbsent});
  return Store(input, draft, std::move(decision));
}

absl::StatusOr<PolicyDecision> DecideUpdatePolicy(const PolicyInput& input,
                                                  const v1::UpdatePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.policy().etag()));
  ASSIGN_OR_RETURN(
      const v1::ThrottlePolicy wanted,
      ApplyPolicyMask(ShowPolicy(*input.current), request.policy(), request.update_mask()));
  ASSIGN_OR_RETURN(storage::v1::PolicyRecord next, ReadPolicy(wanted));
  next.set_paused(input.current->paused());
  next.set_pause_reason(input.current->pause_reason());
  return Replace(input, std::move(next));
}

absl::StatusOr<PolicyDecision> DecideDeletePolicy(const PolicyInput& input,
                                                  const v1::DeletePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  const std::string name = input.name.ToString();
  const auto [shard, uid] = WaitingPlaceOf(*input.current, input.layout.policy_shards);
  PolicyDecision decision;
  RequireUnchanged(input, decision);
  const std::string users = PolicyUserPrefix(uid);
  RequireEmpty(ColumnFamily::kPolicies, users, PrefixEnd(users), PolicyHasSchedules(name),
               decision);
  const std::string waiting = WaitingPolicyPrefix(shard, uid);
  RequireEmpty(ColumnFamily::kWaiting, waiting, PrefixEnd(waiting), PolicyHasWaiting(name),
               decision);
  RequireEmpty(ColumnFamily::kGrants, GrantsBegin(shard, uid), GrantsEnd(shard, uid),
               PolicyHasHolders(name), decision);
  decision.group.mutations.push_back(
      {.cf = ColumnFamily::kPolicies, .kind = kv::Mutation::Kind::kDelete, .key = KeyOf(input)});
  decision.group.mutations.push_back({.cf = ColumnFamily::kGrants,
                                      .kind = kv::Mutation::Kind::kDelete,
                                      .key = PolicyCountsKey(shard, uid)});
  decision.response = std::make_unique<google::protobuf::Empty>();
  return decision;
}

absl::StatusOr<PolicyDecision> DecidePausePolicy(const PolicyInput& input,
                                                 const v1::PausePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  if (input.current->paused()) return WrongState(input.name.ToString(), "PAUSED", "ENABLED");
  storage::v1::PolicyRecord next = *input.current;
  next.set_paused(true);
  next.set_pause_reason(request.reason());
  return Replace(input, std::move(next));
}

absl::StatusOr<PolicyDecision> DecideResumePolicy(const PolicyInput& input,
                                                  const v1::ResumePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  if (!input.current->paused()) return WrongState(input.name.ToString(), "ENABLED", "PAUSED");
  storage::v1::PolicyRecord next = *input.current;
  next.set_paused(false);
  next.clear_pause_reason();
  return Replace(input, std::move(next));
}

}  // namespace escapement::master
