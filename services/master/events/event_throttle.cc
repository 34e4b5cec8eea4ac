#include "services/master/events/event_throttle.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/group_parts.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {
namespace {

void AddPolicyOf(const v1::Event& event, absl::string_view tenant, std::set<std::string>& ids) {
  FieldViolations ignored;
  std::string id = ReadPolicyId(event.policy(), tenant, "policy", ignored);
  if (!id.empty()) ids.insert(std::move(id));
}

}  // namespace

std::set<std::string> PoliciesOf(const v1::BatchCreateEventsRequest& request,
                                 absl::string_view tenant) {
  std::set<std::string> ids;
  for (const v1::CreateEventRequest& each : request.requests())
    AddPolicyOf(each.event(), tenant, ids);
  return ids;
}

std::set<std::string> PoliciesOf(const v1::IngestRequest& request, absl::string_view tenant) {
  std::set<std::string> ids;
  AddPolicyOf(request.defaults(), tenant, ids);
  for (const v1::IngestEvent& each : request.events()) {
    if (each.has_overrides()) AddPolicyOf(each.overrides(), tenant, ids);
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
  const std::string field = absl::StrCat(prefix, ".policy");
  if (!v1::Completion_IsValid(event.completion())) {
    violations.Add(absl::StrCat(prefix, ".completion"), "must be ON_DELIVERY or ON_RELEASE");
    return std::nullopt;
  }
  std::string key = ReadPolicyKey(event.policy_key(), !event.policy().empty(),
                                  absl::StrCat(prefix, ".policy_key"), violations);
  if (event.policy().empty()) {
    if (event.completion() == v1::ON_RELEASE)
      violations.Add(absl::StrCat(prefix, ".completion"), "needs a policy");
    return std::nullopt;
  }
  storage::v1::ThrottleRecord throttle;
  throttle.set_policy_id(ReadPolicyId(event.policy(), tenant, field, violations));
  if (throttle.policy_id().empty()) return std::nullopt;
  const auto policy = policies.find(throttle.policy_id());
  if (policy == policies.end() || !policy->second.has_value()) {
    violations.Add(field, absl::StrCat(event.policy(), " does not exist"));
    return std::nullopt;
  }
  throttle.set_on_release(event.completion() == v1::COMPLETION_UNSPECIFIED
                              ? NeedsTokensBack(*policy->second)
                              : event.completion() == v1::ON_RELEASE);
  throttle.set_policy_key(std::move(key));
  throttle.set_by_tenant(policy->second->by_tenant());
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
