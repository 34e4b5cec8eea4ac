#include "services/handler/delivery/http/answer.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/facts.h"

namespace escapement::handler {

namespace {

// Any other word is ignored.
DeliveryWork WorkOf(absl::string_view outcome) {
  outcome = absl::StripAsciiWhitespace(outcome);
  if (absl::EqualsIgnoreCase(outcome, "succeeded")) return DeliveryWork::kSucceeded;
  if (absl::EqualsIgnoreCase(outcome, "failed")) return DeliveryWork::kFailed;
  return DeliveryWork::kGoesOn;
}

}  // namespace

void HttpBody::Add(absl::string_view more) {
  const absl::string_view kept = more.substr(0, kHttpBodyHeadBytesMax - head.size());
  head.append(kept.data(), kept.size());
  bytes += more.size();
}

DeliveryResult AddressRefused() {
  return {.status = DeliveryStatus::kFailed,
          .not_sent = true,
          .message = "the address of the target is not allowed"};
}

DeliveryResult ResultWithAnswer(const HttpAnswer& answer) {
  DeliveryResult result;
  result.status = DeliveryStatus::kFailed;
  result.status_code = answer.status;
  result.answer = answer.body_head;
  return result;
}

std::string BodyInMessage(const HttpAnswer& answer) {
  const absl::string_view head =
      absl::string_view(answer.body_head).substr(0, kHttpMessageBodyBytesMax);
  return head.empty() ? "" : absl::StrCat(": ", CleanText(head, kDeliveryMessageBytesMax));
}

DeliveryResult ResultOfAnswer(const HttpAnswer& answer, bool has_token) {
  DeliveryResult result = ResultWithAnswer(answer);
  if (answer.status >= 200 && answer.status < 300) {
    result.status = DeliveryStatus::kAccepted;
    if (!has_token) return result;
    result.work = WorkOf(answer.outcome);
    if (result.work == DeliveryWork::kFailed)
      result.message = CleanText(answer.body_head, kHttpMessageBodyBytesMax);
    return result;
  }
  result.gone = answer.status == 410;
  result.status = result.gone ? DeliveryStatus::kRejected : DeliveryStatus::kFailed;
  result.message = absl::StrCat("HTTP ", answer.status, BodyInMessage(answer));
  if (SaysWhenToRetry(answer.status))
    result.retry_after = std::clamp(answer.retry_after, absl::ZeroDuration(), kRetryAfterMax);
  return result;
}

namespace {

constexpr absl::string_view kNameMarks = "!#$%&'*+-.^_`|~";
constexpr absl::string_view kFixedLines =
    "User-Agent: Escapement\r\nce-specversion: 1.0\r\nce-type: escapement.trigger.v1\r\n";

// No control character, so that no value can end its line (RFC 9110, 5.5).
bool IsValue(absl::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

// A token (RFC 9110, 5.6.2).
bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kNameMarks.find(c) != absl::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<std::string> ContentTypeLine(const DeliveryContext& context) {
  const std::string& type = context.definition->delivery().content_type();
  if (!IsValue(type)) return absl::InvalidArgumentError("the content type is no header value");
  return context.payload.empty() ? std::string() : absl::StrCat("Content-Type: ", type, "\r\n");
}

absl::StatusOr<std::string> DefinitionHeaderLines(const storage::v1::DefinitionRecord& definition) {
  const storage::v1::DeliveryRecord& delivery = definition.delivery();
  std::string lines;
  // Sorted, so that equal definitions make equal requests.
  std::map<std::string, std::string> headers(delivery.target().http().headers().begin(),
                                             delivery.target().http().headers().end());
  for (const auto& [name, value] : headers) {
    if (!IsName(name) || !IsValue(value))
      return absl::InvalidArgumentError("the target's headers are malformed");
    absl::StrAppend(&lines, name, ": ", value, "\r\n");
  }
  for (const storage::v1::SecretHeaderRecord& header : delivery.target().http().secret_headers()) {
    if (!IsName(header.name()) || !IsValue(header.value()))
      return absl::InvalidArgumentError("the target's secret headers are malformed");
    absl::StrAppend(&lines, header.name(), ": ", header.value(), "\r\n");
  }
  lines.append(kFixedLines.data(), kFixedLines.size());
  return lines;
}

absl::StatusOr<std::string> ContextHeaderLines(const DeliveryContext& context) {
  const std::string source = context.Source();
  if (!IsValue(source) || !IsValue(context.occurrence)) {
    return absl::InvalidArgumentError("the event's name is no header value");
  }
  std::string lines;
  lines.reserve(256);
  absl::StrAppend(&lines, "ce-source: ", source, "\r\nce-time: ");
  AppendRfc3339(context.nominal_time, &lines);
  lines.append("\r\nEscapement-Launch-Time: ");
  AppendRfc3339(context.launch_time, &lines);
  absl::StrAppend(&lines, "\r\nEscapement-Count: ", context.run_count, "\r\n");
  if (!context.trace_parent.empty())
    absl::StrAppend(&lines, "traceparent: ", context.trace_parent, "\r\n");
  return lines;
}

void AppendAttemptHeaderLines(const DeliveryAttempt& attempt, std::string* lines) {
  absl::StrAppend(lines, "ce-id: ", attempt.event_id, "\r\nIdempotency-Key: ", attempt.event_id);
  if (!attempt.context->occurrence.empty()) {
    absl::StrAppend(lines, "\r\nce-subject: ", attempt.context->occurrence, "/", attempt.index);
  }
  absl::StrAppend(lines, "\r\nEscapement-Attempt: ", attempt.attempt,
                  "\r\nEscapement-Index: ", attempt.index);
  if (!attempt.token.empty()) absl::StrAppend(lines, "\r\nEscapement-Token: ", attempt.token);
}

}  // namespace escapement::handler
