#include "services/master/ingest/kafka/message_decoder.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/rest/json_bytes.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kContentTypeHeader = "content-type";
constexpr absl::string_view kTenantHeader = "escapement-tenant";

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
  const auto named = HeaderOf(message, kTenantHeader);
  if (!named.ok()) return named.status();
  const auto content_type = HeaderOf(message, kContentTypeHeader);
  if (!content_type.ok()) return content_type.status();
  absl::StatusOr<std::string> tenant = rules.TenantOf(message.topic, *named);
  if (!tenant.ok()) return tenant.status();
  if (!message.value.has_value() || message.value->empty())
    return InvalidField("value", "is empty");
  if (message.value->size() > kKafkaValueBytesMax)
    return InvalidField("value", absl::StrCat("must have at most ", kKafkaValueBytesMax, " bytes"));
  v1::Event event;
  if (absl::Status wrong = ReadEvent(*content_type, *message.value, event); !wrong.ok())
    return wrong;
  std::optional<v1::IngestEvent> ingested = rest::ToIngestEvent(std::move(event));
  if (!ingested.has_value()) return InvalidField("due_time", "is not a valid time");
  if (ingested->event_id().empty()) ingested->set_event_id(EventIdOf(message));
  return DecodedMessage{.tenant = *std::move(tenant), .event = *std::move(ingested)};
}

}  // namespace escapement::master
