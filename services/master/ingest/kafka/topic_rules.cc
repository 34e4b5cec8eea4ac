#include "services/master/ingest/kafka/topic_rules.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status/errors.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

constexpr size_t kTopicBytesMax = 249;  // Kafka's own bound
constexpr absl::string_view kAnyTenant = "*";

bool IsTenant(absl::string_view tenant) {
  return ParseTenantName(absl::StrCat("tenants/", tenant), "tenant").ok();
}

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", why));
}

}  // namespace

bool IsTopicName(absl::string_view name) {
  return !name.empty() && name.size() <= kTopicBytesMax && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::StatusOr<TopicRules> TopicRules::Parse(const std::vector<std::string>& topics,
                                             const std::string& default_tenant) {
  if (!IsTenant(default_tenant)) return Malformed(default_tenant, "is not the id of a tenant");
  TopicRules result;
  for (const std::string& text : topics) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (!IsTopicName(parts.first)) return Malformed(text, "does not begin with a topic");
    Rule rule;
    if (text.find('=') == std::string::npos) {
      rule.tenants.push_back(default_tenant);
    } else {
      for (const absl::string_view tenant : absl::StrSplit(parts.second, '|')) {
        if (tenant == kAnyTenant) {
          rule.any = true;
        } else if (IsTenant(tenant)) {
          rule.tenants.emplace_back(tenant);
        } else {
          return Malformed(text, "names a tenant that is none; write TOPIC=TENANT|TENANT");
        }
      }
    }
    if (!result.rules_.emplace(parts.first, std::move(rule)).second)
      return Malformed(parts.first, "is named twice");
  }
  if (result.rules_.empty()) return absl::InvalidArgumentError("names no topic");
  return result;
}

absl::StatusOr<std::string> TopicRules::TenantOf(absl::string_view topic,
                                                 absl::string_view named) const {
  const auto found = rules_.find(topic);
  if (found == rules_.end()) return InvalidField("topic", "is not ingested");
  const Rule& rule = found->second;
  if (named.empty()) {
    if (!rule.tenants.empty()) return rule.tenants.front();
    return InvalidField("escapement-tenant", "is required: the topic has no tenant of its own");
  }
  if (!IsTenant(named)) return InvalidField("escapement-tenant", "is not the id of a tenant");
  if (rule.any || std::find(rule.tenants.begin(), rule.tenants.end(), named) != rule.tenants.end())
    return std::string(named);
  return MakeError(absl::StatusCode::kPermissionDenied, "TOPIC_NOT_OF_TENANT",
                   absl::StrCat("the topic must not write to tenants/", named));
}

std::vector<std::string> TopicRules::Topics() const {
  std::vector<std::string> topics;
  for (const auto& [topic, rule] : rules_) topics.push_back(topic);
  return topics;
}

}  // namespace escapement::master
