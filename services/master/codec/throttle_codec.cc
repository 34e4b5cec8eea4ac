#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using storage::v1::ON_CLOSE_KIND_CARRY_OVER;
using storage::v1::ON_CLOSE_KIND_DROP;
using storage::v1::ON_CLOSE_KIND_FINISH_LATE;

storage::v1::OnCloseKind ReadOnClose(v1::Window::OnClose on_close, FieldViolations& violations) {
  switch (on_close) {
    case v1::Window::ON_CLOSE_UNSPECIFIED:
    case v1::Window::FINISH_LATE:
      return ON_CLOSE_KIND_FINISH_LATE;
    case v1::Window::DROP:
      return ON_CLOSE_KIND_DROP;
    case v1::Window::CARRY_OVER:
      return ON_CLOSE_KIND_CARRY_OVER;
    default:
      violations.Add("schedule.window.on_close", "must be FINISH_LATE, DROP or CARRY_OVER");
      return ON_CLOSE_KIND_FINISH_LATE;
  }
}

v1::Window::OnClose ShowOnClose(storage::v1::OnCloseKind on_close) {
  switch (on_close) {
    case ON_CLOSE_KIND_DROP:
      return v1::Window::DROP;
    case ON_CLOSE_KIND_CARRY_OVER:
      return v1::Window::CARRY_OVER;
    default:
      return v1::Window::FINISH_LATE;
  }
}

storage::v1::WindowRecord ReadWindow(const v1::Window& window, FieldViolations& violations) {
  storage::v1::WindowRecord record;
  const auto duration = ToDuration(window.duration());
  if (!window.has_duration()) {
    violations.Add("schedule.window.duration", "is required");
  } else if (!duration.has_value() || *duration < kWindowMin || *duration > kWindowMax) {
    violations.Add("schedule.window.duration",
                   absl::StrCat("must be from ", absl::FormatDuration(kWindowMin), " to ",
                                absl::FormatDuration(kWindowMax)));
  } else {
    record.set_duration_micros(MicrosUp(*duration));
  }
  if (!v1::Window::Pacing_IsValid(window.pacing())) {
    violations.Add("schedule.window.pacing", "must be SOONEST or EVEN");
  }
  record.set_even(window.pacing() == v1::Window::EVEN);
  record.set_on_close(ReadOnClose(window.on_close(), violations));
  return record;
}

v1::Completion DefaultCompletion(bool has_policy) {
  return has_policy ? v1::ON_RELEASE : v1::ON_DELIVERY;
}

}  // namespace

std::string ReadPolicyId(const std::string& policy, absl::string_view tenant,
                         absl::string_view field, FieldViolations& violations) {
  if (policy.empty()) return std::string();
  // As in filters: without '/' it is an id of the tenant's.
  const absl::StatusOr<PolicyName> name = ParsePolicyName(
      absl::StrContains(policy, '/') ? policy : PolicyName{std::string(tenant), policy}.ToString(),
      field);
  if (absl::IsInvalidArgument(name.status())) {
    violations.AddStatus("", name.status());
  } else if (!name.ok() || name->tenant != tenant) {
    violations.Add(field, absl::StrCat("must be a policy of tenants/", tenant));
  } else {
    return name->policy;
  }
  return std::string();
}

const std::string& ReadPolicyKey(const std::string& key, absl::string_view field,
                                 FieldViolations& violations) {
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!printable || key.size() > kPolicyKeyBytesMax) {
    violations.Add(field, absl::StrCat("must be printable text of at most ", kPolicyKeyBytesMax,
                                       " bytes (ASCII)"));
  }
  return key;
}

namespace {

storage::v1::LimitRecord ReadLimit(const v1::Limit& limit, absl::string_view field,
                                   absl::string_view tenant, FieldViolations& violations) {
  storage::v1::LimitRecord record;
  const std::string policy = absl::StrCat(field, ".policy");
  if (limit.policy().empty()) violations.Add(policy, "is required");
  record.set_policy_id(ReadPolicyId(limit.policy(), tenant, policy, violations));
  record.set_policy_key(
      ReadPolicyKey(limit.policy_key(), absl::StrCat(field, ".policy_key"), violations));
  const int64_t weight = limit.weight() == 0 ? 1 : limit.weight();
  if (weight < 1 || weight > kLimitWeightMax) {
    violations.Add(absl::StrCat(field, ".weight"),
                   absl::StrCat("must be from 1 to ", kLimitWeightMax));
  }
  record.set_weight(static_cast<uint64_t>(weight));
  return record;
}

template <typename Message>
void ShowLimits(const storage::v1::ThrottleRecord& throttle, absl::string_view tenant,
                Message& message) {
  const std::vector<storage::v1::LimitRecord> limits = LimitsOf(throttle);
  const auto name = [&](const storage::v1::LimitRecord& limit) {
    return PolicyName{std::string(tenant), limit.policy_id()}.ToString();
  };
  if (limits.size() == 1 && limits[0].weight() == 1) {
    message.set_policy(name(limits[0]));
    message.set_policy_key(limits[0].policy_key());
    return;
  }
  for (const storage::v1::LimitRecord& each : limits) {
    v1::Limit& limit = *message.add_limits();
    limit.set_policy(name(each));
    limit.set_policy_key(each.policy_key());
    limit.set_weight(static_cast<int64_t>(each.weight()));
  }
}

bool NeedsTokensBack(const storage::v1::PolicyRecord& policy) {
  return policy.max_concurrent() > 0 || policy.per_key().max_concurrent() > 0;
}

// How many tokens of the policy one event can hold.
uint64_t TokensMax(const storage::v1::PolicyRecord& policy) {
  uint64_t tokens = std::numeric_limits<uint64_t>::max();
  for (const uint64_t limit : {policy.max_concurrent(), policy.per_key().max_concurrent()})
    if (limit > 0) tokens = std::min(tokens, limit);
  return tokens;
}

}  // namespace

std::string PolicyField(absl::string_view prefix, bool listed, size_t index) {
  return listed ? absl::StrCat(prefix, ".limits[", index, "].policy")
                : absl::StrCat(prefix, ".policy");
}

void ReadLimits(const NamedLimits& named, absl::string_view prefix, absl::string_view tenant,
                storage::v1::ThrottleRecord& throttle, FieldViolations& violations) {
  const std::string list = absl::StrCat(prefix, ".limits");
  if (!named.listed()) {
    throttle.set_policy_id(
        ReadPolicyId(named.policy, tenant, absl::StrCat(prefix, ".policy"), violations));
    throttle.set_policy_key(
        ReadPolicyKey(named.policy_key, absl::StrCat(prefix, ".policy_key"), violations));
    if (!named.policy_key.empty() && named.policy.empty())
      violations.Add(absl::StrCat(prefix, ".policy_key"), "needs a policy");
    return;
  }
  if (!named.policy.empty() || !named.policy_key.empty())
    violations.Add(list, "set either policy or limits");
  if (named.limits.size() > kLimitsMax) {
    violations.Add(list, absl::StrCat("must hold at most ", kLimitsMax, " limits"));
    return;
  }
  std::set<std::string> ids;
  for (int i = 0; i < named.limits.size(); ++i) {
    const storage::v1::LimitRecord limit =
        ReadLimit(named.limits[i], absl::StrCat(list, "[", i, "]"), tenant, violations);
    if (!limit.policy_id().empty() && !ids.insert(limit.policy_id()).second)
      violations.Add(absl::StrCat(list, "[", i, "].policy"), "is named twice");
    if (i > 0) {
      *throttle.add_more() = limit;
      continue;
    }
    throttle.set_policy_id(limit.policy_id());
    throttle.set_policy_key(limit.policy_key());
    if (limit.weight() > 1) throttle.set_weight(limit.weight());
  }
}

std::vector<storage::v1::LimitRecord> LimitsOf(const storage::v1::ThrottleRecord& throttle) {
  if (throttle.policy_id().empty()) return {};
  std::vector<storage::v1::LimitRecord> limits(1);
  limits[0].set_policy_id(throttle.policy_id());
  limits[0].set_policy_key(throttle.policy_key());
  limits[0].set_weight(std::max<uint64_t>(throttle.weight(), 1));
  limits.insert(limits.end(), throttle.more().begin(), throttle.more().end());
  return limits;
}

std::set<std::string> PolicyIdsOf(const storage::v1::ThrottleRecord& throttle) {
  std::set<std::string> ids;
  for (const storage::v1::LimitRecord& limit : LimitsOf(throttle)) ids.insert(limit.policy_id());
  return ids;
}

void WriteLimits(const storage::v1::ThrottleRecord& throttle, absl::string_view tenant,
                 v1::Schedule& schedule) {
  ShowLimits(throttle, tenant, schedule);
}

void WriteLimits(const storage::v1::ThrottleRecord& throttle, absl::string_view tenant,
                 v1::Event& event) {
  ShowLimits(throttle, tenant, event);
}

void FillLimits(const Policies& policies, bool completion_missing, absl::string_view prefix,
                storage::v1::ThrottleRecord& throttle, FieldViolations& violations) {
  const std::vector<storage::v1::LimitRecord> limits = LimitsOf(throttle);
  bool needs_tokens_back = false;
  for (size_t i = 0; i < limits.size(); ++i) {
    const storage::v1::PolicyRecord& policy = *policies.at(limits[i].policy_id());
    needs_tokens_back = needs_tokens_back || NeedsTokensBack(policy);
    if (limits[i].weight() > TokensMax(policy)) {
      violations.Add(absl::StrCat(prefix, ".limits[", i, "].weight"),
                     absl::StrCat("is more than the ", TokensMax(policy), " tokens of ",
                                  PolicyName{policy.tenant(), policy.policy_id()}.ToString(),
                                  ", so no event could go out"));
    }
  }
  throttle.set_by_tenant(policies.at(throttle.policy_id())->by_tenant());
  if (completion_missing) throttle.set_on_release(needs_tokens_back);
}

absl::Status CheckTogether(const storage::v1::ThrottleRecord& throttle, const Policies& policies,
                           uint32_t policy_shards, absl::string_view field) {
  if (throttle.more().empty()) return absl::OkStatus();
  std::set<uint16_t> shards;
  std::vector<std::string> former;
  for (const storage::v1::LimitRecord& limit : LimitsOf(throttle)) {
    const storage::v1::PolicyRecord& policy = *policies.at(limit.policy_id());
    shards.insert(WaitingPlaceOf(policy, policy_shards).policy_shard);
    if (!policy.by_tenant())
      former.push_back(PolicyName{policy.tenant(), policy.policy_id()}.ToString());
  }
  return shards.size() > 1 ? PoliciesApart(former, field) : absl::OkStatus();
}

std::optional<storage::v1::ThrottleRecord> ReadThrottle(const v1::Schedule& schedule,
                                                        absl::string_view tenant,
                                                        FieldViolations& violations) {
  storage::v1::ThrottleRecord record;
  const NamedLimits named(schedule);
  ReadLimits(named, "schedule", tenant, record, violations);
  if (schedule.has_window()) *record.mutable_window() = ReadWindow(schedule.window(), violations);
  if (!v1::Completion_IsValid(schedule.completion())) {
    violations.Add("schedule.completion", "must be ON_DELIVERY or ON_RELEASE");
  }
  const v1::Completion completion = schedule.completion() == v1::COMPLETION_UNSPECIFIED
                                        ? DefaultCompletion(named.any())
                                        : schedule.completion();
  record.set_on_release(completion == v1::ON_RELEASE);
  if (!named.any() && !schedule.has_window() && !record.on_release()) return std::nullopt;
  return record;
}

void WriteThrottle(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule) {
  const storage::v1::ThrottleRecord& throttle = definition.throttle();
  WriteLimits(throttle, definition.tenant(), schedule);
  schedule.set_completion(throttle.on_release() ? v1::ON_RELEASE : v1::ON_DELIVERY);
  if (!throttle.has_window()) return;
  v1::Window* window = schedule.mutable_window();
  SetDuration(throttle.window().duration_micros(), *window->mutable_duration());
  window->set_pacing(throttle.window().even() ? v1::Window::EVEN : v1::Window::SOONEST);
  window->set_on_close(ShowOnClose(throttle.window().on_close()));
}

absl::Status FillThrottle(const Policies& policies, uint32_t policy_shards,
                          Definition& definition) {
  storage::v1::ThrottleRecord& throttle = *definition.record.mutable_throttle();
  FieldViolations violations;
  FillLimits(policies, definition.completion_missing, "schedule", throttle, violations);
  RETURN_IF_ERROR(violations.ToStatus());
  return CheckTogether(throttle, policies, policy_shards, "schedule.limits");
}

void ForgetDefaultCompletion(v1::Schedule& schedule) {
  if (schedule.completion() == DefaultCompletion(NamedLimits(schedule).any()))
    schedule.clear_completion();
}

}  // namespace escapement::master
