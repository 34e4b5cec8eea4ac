#include "services/master/ingest/kafka/message_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "common/status/errors.h"
#include "services/master/api/master_apis.h"
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

namespace {

constexpr absl::string_view kContentTypeHeader = "content-type";
constexpr absl::string_view kTenantHeader = "escapement-tenant";
constexpr absl::string_view kPolicyHeader = "escapement-policy";
constexpr absl::string_view kModeHeader = "escapement-mode";

// "" if there is none. A second one is refused: readers could differ in which one counts.
absl::StatusOr<absl::string_view> HeaderOf(const KafkaMessageView& message,
                                           absl::string_view wanted) {
  absl::string_view found;
  bool has = false;
  for (const auto& [name, value] : message.headers) {
    if (!absl::EqualsIgnoreCase(name, wanted)) continue;
    if (has) return InvalidField(wanted, "is given more than once");
    found = value;
    has = true;
  }
  return found;
}

absl::Status ReadJson(absl::string_view value, v1::Event& event) {
  absl::StatusOr<v1::Event> read = rest::EventFromJson(value);
  if (!read.ok()) return InvalidField("value", read.status().message());
  event = *std::move(read);
  return absl::OkStatus();
}

absl::Status ReadEvent(absl::string_view content_type, absl::string_view value, v1::Event& event) {
  const absl::string_view type =
      absl::StripAsciiWhitespace(content_type.substr(0, content_type.find(';')));
  if (type.empty() || absl::EqualsIgnoreCase(type, "application/json"))
    return ReadJson(value, event);
  if (absl::EqualsIgnoreCase(type, "application/protobuf")) {
    if (event.ParseFromArray(value.data(), static_cast<int>(value.size()))) return absl::OkStatus();
    return InvalidField("value", "is no escapement.v1.Event in protobuf");
  }
  return InvalidField(kContentTypeHeader, "must be application/json or application/protobuf");
}

// `named`: "" if no header names a policy.
absl::Status CheckPolicy(absl::string_view named) {
  if (named.empty() || IsResourceId(named)) return absl::OkStatus();
  return ParsePolicyName(named, kPolicyHeader).status();
}

absl::StatusOr<v1::Event::IngestMode> ReadMode(absl::string_view header) {
  v1::Event::IngestMode mode = v1::Event::INGEST_MODE_UNSPECIFIED;
  if (!header.empty() && !v1::Event::IngestMode_Parse(std::string(header), &mode))
    return InvalidField(kModeHeader, "must be CREATE, UPSERT or CANCEL");
  return mode;
}

// The value, which a message that cancels need not have.
absl::StatusOr<v1::IngestEvent> ReadValue(const KafkaMessageView& message,
                                          absl::string_view content_type, bool cancels) {
  v1::IngestEvent ingested;
  if (!message.value.has_value() || message.value->empty()) {
    if (!cancels) return InvalidField("value", "is empty");
    ingested.mutable_overrides();
    return ingested;
  }
  if (message.value->size() > kKafkaValueBytesMax)
    return InvalidField("value", absl::StrCat("must have at most ", kKafkaValueBytesMax, " bytes"));
  v1::Event event;
  RETURN_IF_ERROR(ReadEvent(content_type, *message.value, event));
  std::optional<v1::IngestEvent> read = rest::ToIngestEvent(std::move(event));
  if (!read.has_value()) return InvalidField("due_time", "is not a valid time");
  return *std::move(read);
}

void AddPart(absl::string_view part, std::string& text) {
  absl::StrAppend(&text, part.size(), ":", part);
}

}  // namespace

std::string EventIdOf(const KafkaMessageView& message) {
  std::string text;
  AddPart(message.topic, text);
  absl::StrAppend(&text, message.timestamp_millis, message.key.has_value() ? "k" : "n");
  AddPart(message.key.value_or(""), text);
  AddPart(message.value.value_or(""), text);
  return absl::StrCat("kafka-", message.partition, "-", message.offset, "-",
                      absl::Hex(StableHash64(text), absl::kZeroPad16));
}

absl::StatusOr<DecodedMessage> DecodeMessage(const KafkaMessageView& message,
                                             const TopicRules& rules) {
  ASSIGN_OR_RETURN(const auto named, HeaderOf(message, kTenantHeader));
  ASSIGN_OR_RETURN(const auto content_type, HeaderOf(message, kContentTypeHeader));
  ASSIGN_OR_RETURN(const auto policy, HeaderOf(message, kPolicyHeader));
  ASSIGN_OR_RETURN(const auto mode_header, HeaderOf(message, kModeHeader));
  RETURN_IF_ERROR(CheckPolicy(policy));
  ASSIGN_OR_RETURN(std::string tenant, rules.TenantOf(message.topic, named));
  ASSIGN_OR_RETURN(v1::Event::IngestMode mode, ReadMode(mode_header));
  const bool tombstone = message.key.has_value() && !message.value.has_value();
  if (tombstone && mode == v1::Event::INGEST_MODE_UNSPECIFIED) mode = v1::Event::CANCEL;
  ASSIGN_OR_RETURN(v1::IngestEvent event,
                   ReadValue(message, content_type, mode == v1::Event::CANCEL));
  if (event.mode() == v1::Event::INGEST_MODE_UNSPECIFIED) event.set_mode(mode);
  if (event.event_id().empty()) {
    event.set_event_id(TakesBack(event) ? std::string(message.key.value_or(""))
                                        : EventIdOf(message));
  }
  if (event.overrides().policy().empty() && event.overrides().limits().empty())
    event.mutable_overrides()->set_policy(std::string(policy));
  return DecodedMessage{.tenant = std::move(tenant), .event = std::move(event)};
}

}  // namespace escapement::master
