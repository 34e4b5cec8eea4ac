// Any bytes as a Kafka message: the first line is the content-type, the second one the tenant, the
// third one the policy, the rest the value.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "services/master/ingest/kafka/message_decoder.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

using master::KafkaMessageView;

bool IsPlain(absl::string_view id) {
  return !id.empty() && id.size() <= 63 && absl::c_all_of(id, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

absl::string_view TakeLine(absl::string_view& text) {
  const size_t end = text.find('\n');
  const absl::string_view line = text.substr(0, end);
  text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
  return line;
}

void CheckMessage(absl::string_view input) {
  static const auto* const rules = new master::TopicRules(
      *master::TopicRules::Parse({"orders=team-a|team-b", "all=*"}, "default"));
  absl::string_view rest = input;
  KafkaMessageView message = {.topic = "orders", .partition = 1, .offset = 2};
  const absl::string_view type = TakeLine(rest);
  const absl::string_view tenant = TakeLine(rest);
  const absl::string_view policy = TakeLine(rest);
  if (!type.empty()) message.headers.emplace_back("content-type", type);
  if (!tenant.empty()) message.headers.emplace_back("escapement-tenant", tenant);
  if (!policy.empty()) message.headers.emplace_back("escapement-policy", policy);
  message.value = rest;
  const auto decoded = master::DecodeMessage(message, *rules);
  const std::string id = master::EventIdOf(message);
  Require(IsPlain(id), "the made id is valid", input);
  if (decoded.ok()) {
    Require(decoded->tenant == "team-a" || decoded->tenant == "team-b", "only tenants of the topic",
            input);
    Require(!decoded->event.event_id().empty(), "each event has an id", input);
    Require(!rest.empty(), "no event without a value", input);
    Require(policy.empty() || !decoded->event.overrides().policy().empty() ||
                !decoded->event.overrides().limits().empty(),
            "a named policy is not lost", input);
    const auto again = master::DecodeMessage(message, *rules);
    Require(again.ok() && again->event.SerializeAsString() == decoded->event.SerializeAsString(),
            "the same message is the same event", input);
  } else {
    const auto code = decoded.status().code();
    Require(
        code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kPermissionDenied,
        "a refusal is final", input);
    Require(absl::c_none_of(decoded.status().message(), absl::ascii_iscntrl),
            "the reason has no control characters", input);
  }
  // A topic for all tenants takes well-formed ids only.
  message.topic = "all";
  if (const auto any = master::DecodeMessage(message, *rules); any.ok()) {
    Require(any->tenant == tenant, "the tenant is the named one", input);
    Require(absl::c_none_of(any->tenant,
                            [](char c) {
                              return c == '/' ||
                                     absl::ascii_isspace(static_cast<unsigned char>(c)) ||
                                     absl::ascii_isupper(static_cast<unsigned char>(c));
                            }),
            "the tenant is well-formed", input);
  }
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckMessage({reinterpret_cast<const char*>(data), size});
  return 0;
}
