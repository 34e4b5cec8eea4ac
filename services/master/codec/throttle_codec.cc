#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
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

std::string ReadPolicyKey(const std::string& key, bool has_policy, absl::string_view field,
                          FieldViolations& violations) {
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!printable || key.size() > kPolicyKeyBytesMax) {
    violations.Add(field, absl::StrCat("must be printable text of at most ", kPolicyKeyBytesMax,
                                       " bytes (ASCII)"));
  } else if (!key.empty() && !has_policy) {
    violations.Add(field, "needs a policy");
  }
  return key;
}

bool NeedsTokensBack(const storage::v1::PolicyRecord& policy) {
  return policy.max_concurrent() > 0 || policy.per_key().max_concurrent() > 0;
}

std::optional<storage::v1::ThrottleRecord> ReadThrottle(const v1::Schedule& schedule,
                                                        absl::string_view tenant,
                                                        FieldViolations& violations) {
  storage::v1::ThrottleRecord record;
  record.set_policy_id(ReadPolicyId(schedule.policy(), tenant, "schedule.policy", violations));
  record.set_policy_key(ReadPolicyKey(schedule.policy_key(), !schedule.policy().empty(),
                                      "schedule.policy_key", violations));
  if (schedule.has_window()) *record.mutable_window() = ReadWindow(schedule.window(), violations);
  if (!v1::Completion_IsValid(schedule.completion())) {
    violations.Add("schedule.completion", "must be ON_DELIVERY or ON_RELEASE");
  }
  const v1::Completion completion = schedule.completion() == v1::COMPLETION_UNSPECIFIED
                                        ? DefaultCompletion(!schedule.policy().empty())
                                        : schedule.completion();
  record.set_on_release(completion == v1::ON_RELEASE);
  if (schedule.policy().empty() && !schedule.has_window() && !record.on_release())
    return std::nullopt;
  return record;
}

void WriteThrottle(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule) {
  const storage::v1::ThrottleRecord& throttle = definition.throttle();
  if (!throttle.policy_id().empty())
    schedule.set_policy(PolicyName{definition.tenant(), throttle.policy_id()}.ToString());
  schedule.set_policy_key(throttle.policy_key());
  schedule.set_completion(throttle.on_release() ? v1::ON_RELEASE : v1::ON_DELIVERY);
  if (!throttle.has_window()) return;
  v1::Window* window = schedule.mutable_window();
  SetDuration(throttle.window().duration_micros(), *window->mutable_duration());
  window->set_pacing(throttle.window().even() ? v1::Window::EVEN : v1::Window::SOONEST);
  window->set_on_close(ShowOnClose(throttle.window().on_close()));
}

void FillCompletion(const storage::v1::PolicyRecord& policy, Definition& definition) {
  definition.record.mutable_throttle()->set_by_tenant(policy.by_tenant());
  if (!definition.completion_missing) return;
  definition.record.mutable_throttle()->set_on_release(NeedsTokensBack(policy));
}

void ForgetDefaultCompletion(v1::Schedule& schedule) {
  if (schedule.completion() == DefaultCompletion(!schedule.policy().empty()))
    schedule.clear_completion();
}

}  // namespace escapement::master
