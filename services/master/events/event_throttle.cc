#include "services/master/events/event_throttle.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/group_parts.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

void AddPoliciesOf(const v1::Event& event, absl::string_view tenant, std::set<std::string>& ids) {
  FieldViolations ignored;
  const auto add = [&](const std::string& policy) {
    std::string id = ReadPolicyId(policy, tenant, "policy", ignored);
    if (!id.empty()) ids.insert(std::move(id));
  };
  add(event.policy());
  for (int i = 0; i < std::min(event.limits_size(), kLimitsMax); ++i) add(event.limits(i).policy());
}

}  // namespace

std::set<std::string> PoliciesOf(const v1::BatchCreateEventsRequest& request,
                                 absl::string_view tenant) {
  std::set<std::string> ids;
  for (const v1::CreateEventRequest& each : request.requests())
    AddPoliciesOf(each.event(), tenant, ids);
  return ids;
}

std::set<std::string> PoliciesOf(const v1::IngestRequest& request, const v1::Event& defaults,
                                 absl::string_view tenant) {
  std::set<std::string> ids;
  AddPoliciesOf(defaults, tenant, ids);
  for (const v1::IngestEvent& each : request.events()) {
    if (each.has_overrides()) AddPoliciesOf(each.overrides(), tenant, ids);
  }
  return ids;
}

void ReadPolicies(MasterContext& context, const std::string& tenant,
                  const std::set<std::string>& ids,
                  absl::AnyInvocable<void(absl::StatusOr<Policies>)> done) {
  if (ids.empty()) return done(Policies());
  std::vector<kv::Key> keys;
  for (const std::string& id : ids)
    keys.push_back({kv::ColumnFamily::kPolicies, PolicyKey(tenant, id)});
  context.client.MultiGet(
      std::move(keys), context.executor,
      [ids, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        Policies policies;
        size_t i = 0;
        for (const std::string& id : ids) {
          const std::optional<std::string>& bytes = result->values[i++];
          std::optional<storage::v1::PolicyRecord>& policy = policies[id];
          if (bytes.has_value() && !policy.emplace().ParseFromString(*bytes))
            return done(BrokenRecord("a policy"));
        }
        done(std::move(policies));
      });
}

std::optional<storage::v1::ThrottleRecord> ReadEventThrottle(const v1::Event& event,
                                                             absl::string_view prefix,
                                                             absl::string_view tenant,
                                                             const Policies& policies,
                                                             FieldViolations& violations) {
  if (!v1::Completion_IsValid(event.completion())) {
    violations.Add(absl::StrCat(prefix, ".completion"), "must be ON_DELIVERY or ON_RELEASE");
    return std::nullopt;
  }
  const NamedLimits named(event);
  const size_t before = violations.size();
  storage::v1::ThrottleRecord throttle;
  ReadLimits(named, prefix, tenant, throttle, violations);
  if (!named.any() && event.completion() == v1::ON_RELEASE)
    violations.Add(absl::StrCat(prefix, ".completion"), "needs a policy");
  if (!named.any() || violations.size() > before) return std::nullopt;
  const std::vector<storage::v1::LimitRecord> limits = LimitsOf(throttle);
  for (size_t i = 0; i < limits.size(); ++i) {
    const auto policy = policies.find(limits[i].policy_id());
    if (policy != policies.end() && policy->second.has_value()) continue;
    violations.Add(PolicyField(prefix, named.listed(), i),
                   absl::StrCat(PolicyName{std::string(tenant), limits[i].policy_id()}.ToString(),
                                " does not exist"));
  }
  if (violations.size() > before) return std::nullopt;
  throttle.set_on_release(event.completion() == v1::ON_RELEASE);
  FillLimits(policies, event.completion() == v1::COMPLETION_UNSPECIFIED, prefix, throttle,
             violations);
  return throttle;
}

std::vector<kv::Condition> PoliciesPresent(absl::string_view tenant, const Policies& policies) {
  std::vector<kv::Condition> present;
  for (const auto& [id, policy] : policies) {
    if (policy.has_value())
      present.push_back(kv::Present(kv::ColumnFamily::kPolicies, PolicyKey(tenant, id)));
  }
  return present;
}

}  // namespace escapement::master
