#include "services/master/policies/policy_decisions.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
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

void RemoveOverrides(storage::v1::PolicyRecord& policy,
                     absl::FunctionRef<bool(const storage::v1::OverrideRecord&)> remove) {
  auto* overrides = policy.mutable_overrides();
  overrides->erase(std::remove_if(overrides->begin(), overrides->end(), remove), overrides->end());
}

// True if both are of the policy itself, or of the same key.
template <typename Named>
bool ReplacesSame(const storage::v1::OverrideRecord& override, const Named& named) {
  return override.has_policy_key() == named.has_policy_key() &&
         override.policy_key() == named.policy_key();
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
  RemoveOverrides(next, [&](const storage::v1::OverrideRecord& override) {
    return !InForce(override, input.now) || (override.has_policy_key() && !next.has_per_key());
  });
  decision.group.mutations.push_back(
      {.cf = ColumnFamily::kPolicies, .key = KeyOf(input), .value = next.SerializeAsString()});
  decision.response = std::make_unique<v1::ThrottlePolicy>(ShowPolicy(next, input.now));
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
  ASSIGN_OR_RETURN(const v1::ThrottlePolicy wanted,
                   ApplyPolicyMask(ShowPolicy(*input.current, input.now), request.policy(),
                                   request.update_mask()));
  ASSIGN_OR_RETURN(storage::v1::PolicyRecord next, ReadPolicy(wanted));
  next.set_paused(input.current->paused());
  next.set_pause_reason(input.current->pause_reason());
  next.set_pause_time_micros(input.current->pause_time_micros());
  *next.mutable_overrides() = input.current->overrides();
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
  for (std::string key : {PolicyCountsKey(shard, uid), PolicyHistoryKey(shard, uid)}) {
    decision.group.mutations.push_back(
        {.cf = ColumnFamily::kGrants, .kind = kv::Mutation::Kind::kDelete, .key = std::move(key)});
  }
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
  next.set_pause_time_micros(ToMicros(input.now));
  return Replace(input, std::move(next));
}

absl::StatusOr<PolicyDecision> DecideResumePolicy(const PolicyInput& input,
                                                  const v1::ResumePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  if (!input.current->paused()) return WrongState(input.name.ToString(), "ENABLED", "PAUSED");
  storage::v1::PolicyRecord next = *input.current;
  next.set_paused(false);
  next.clear_pause_reason();
  next.clear_pause_time_micros();
  return Replace(input, std::move(next));
}

absl::StatusOr<PolicyDecision> DecideOverridePolicy(const PolicyInput& input,
                                                    const v1::OverridePolicyRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  FieldViolations violations;
  storage::v1::OverrideRecord override = ReadOverride(request.override(), violations);
  CheckOverrideTime(override, input.now, violations);
  if (override.has_policy_key() && !input.current->has_per_key()) {
    violations.Add("override.policy_key",
                   absl::StrCat("needs per_key, which ", input.name.ToString(), " does not have"));
  }
  if (!violations.empty()) return violations.ToStatus();
  override.set_create_time_micros(ToMicros(input.now));
  storage::v1::PolicyRecord next = *input.current;
  RemoveOverrides(next, [&](const storage::v1::OverrideRecord& former) {
    return !InForce(former, input.now) || ReplacesSame(former, override);
  });
  if (next.overrides_size() >= kOverridesMax) return TooManyOverrides(input.name.ToString());
  *next.add_overrides() = std::move(override);
  return Replace(input, std::move(next));
}

absl::StatusOr<PolicyDecision> DecideClearOverride(const PolicyInput& input,
                                                   const v1::ClearOverrideRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  storage::v1::PolicyRecord next = *input.current;
  bool cleared = false;
  RemoveOverrides(next, [&](const storage::v1::OverrideRecord& former) {
    const bool named = InForce(former, input.now) && ReplacesSame(former, request);
    cleared = cleared || named;
    return named;
  });
  if (!cleared) return NoOverride(input.name.ToString());
  return Replace(input, std::move(next));
}

}  // namespace escapement::master
