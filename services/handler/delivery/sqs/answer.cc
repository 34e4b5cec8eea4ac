#include "services/handler/delivery/sqs/answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/bounded_json.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

using nlohmann::json;

constexpr size_t kCodeBytesMax = 128;
constexpr size_t kBodyHeadBytesMax = 256;

// The error that SQS names.
struct SqsError {
  std::string code;
  std::string message;
};

// "" if there is no such text.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// "QueueDoesNotExist" of "com.amazonaws.sqs#QueueDoesNotExist".
std::string WithoutNamespace(const std::string& type) {
  return type.substr(type.find('#') + 1);  // npos + 1 is 0
}

SqsError ErrorOf(const SqsAnswer& answer) {
  SqsError error;
  const json body = ParseBoundedJson(answer.body);
  if (!body.is_object()) return error;
  error.code = WithoutNamespace(TextOf(body, "__type"));
  error.message = TextOf(body, "message");
  if (error.message.empty()) error.message = TextOf(body, "Message");
  return error;
}

std::string MessageOf(const SqsError& error) {
  const std::string code = CleanText(error.code, kCodeBytesMax);
  const std::string message =
      CleanText(error.message, kDeliveryMessageBytesMax - kCodeBytesMax - 2);
  return message.empty() ? code : absl::StrCat(code, ": ", message);
}

bool IsThrottling(absl::string_view code) {
  return absl::StrContains(code, "Throttl") || absl::StrContains(code, "TooManyRequests") ||
         absl::StrContains(code, "OverLimit") || absl::StrContains(code, "LimitExceeded");
}

// Errors that pass, or that an operator can mend. SQS blames the sender for some of them.
bool MayPass(absl::string_view code) {
  return IsThrottling(code) || absl::StartsWith(code, "Kms") || absl::StartsWith(code, "KMS.") ||
         absl::StrContains(code, "AccessDenied") || absl::StrContains(code, "NonExistentQueue") ||
         absl::StrContains(code, "QueueDoesNotExist") || absl::StrContains(code, "Internal") ||
         absl::StrContains(code, "Unavailable") || absl::StrContains(code, "Token") ||
         absl::StrContains(code, "Signature");
}

// The entry that an element of a list speaks of, or `entries`.
size_t EntryOf(const json& element, size_t entries) {
  size_t entry = entries;
  if (!element.is_object() || !absl::SimpleAtoi(TextOf(element, "Id"), &entry)) return entries;
  return std::min(entry, entries);
}

// SQS answers each message with an id of its own. It is not kept, because events with different
// answers need records of their own.
DeliveryResult AcceptedResult() {
  DeliveryResult result;
  result.status = DeliveryStatus::kAccepted;
  return result;
}

DeliveryResult FailedResult(const json& element) {
  const SqsError error = {.code = TextOf(element, "Code"), .message = TextOf(element, "Message")};
  const auto fault = element.find("SenderFault");
  // Services that come from the older Query protocol write the word.
  const bool senders = fault != element.end() && (*fault == true || *fault == "true");
  return {.status =
              senders && !MayPass(error.code) ? DeliveryStatus::kRejected : DeliveryStatus::kFailed,
          .message = MessageOf(error)};
}

std::vector<DeliveryResult> ResultsOfLists(const SqsAnswer& answer, size_t entries) {
  std::vector<DeliveryResult> results(
      entries, {.status = DeliveryStatus::kUnknown,
                .message = "the answer of SQS does not say what became of the message"});
  const json body = answer.cut ? json() : ParseBoundedJson(answer.body);
  if (!body.is_object()) {
    for (DeliveryResult& result : results) result.message = "the answer of SQS is malformed";
    return results;
  }
  std::vector<int> mentions(entries, 0);
  const auto read = [&](const char* list, bool successful) {
    const auto found = body.find(list);
    if (found == body.end() || !found->is_array()) return;
    for (const json& element : *found) {
      const size_t entry = EntryOf(element, entries);
      if (entry == entries) continue;
      if (++mentions[entry] == 1) {
        results[entry] = successful ? AcceptedResult() : FailedResult(element);
      } else {
        results[entry] = {.status = DeliveryStatus::kUnknown,
                          .message = "the answer of SQS has several results for the message"};
      }
    }
  };
  read("Successful", true);
  read("Failed", false);
  return results;
}

}  // namespace

bool BlamesContents(const SqsAnswer& answer) {
  if (answer.status != 400) return false;
  const std::string code = ErrorOf(answer).code;
  return absl::StrContains(code, "InvalidMessageContents") ||
         absl::StrContains(code, "BatchRequestTooLong") ||
         absl::StrContains(code, "InvalidParameterValue");
}

std::vector<DeliveryResult> ResultsOfAnswer(const SqsAnswer& answer, size_t entries) {
  if (answer.status == 200) {
    std::vector<DeliveryResult> results = ResultsOfLists(answer, entries);
    for (DeliveryResult& result : results) result.status_code = answer.status;
    return results;
  }
  const SqsError error = ErrorOf(answer);
  DeliveryResult result = {.status = DeliveryStatus::kFailed, .message = MessageOf(error)};
  result.status_code = answer.status;
  result.answer = answer.body.substr(0, kDeliveryAnswerBytesMax);
  if (error.code.empty()) {
    const absl::string_view body = answer.body;
    result.message = absl::StrCat("HTTP ", answer.status, body.empty() ? "" : ": ",
                                  CleanText(body, kBodyHeadBytesMax));
  }
  if (entries == 1 && BlamesContents(answer)) result.status = DeliveryStatus::kRejected;
  if (answer.status == 429 || answer.status == 503 || IsThrottling(error.code))
    result.retry_after = std::clamp(answer.retry_after, absl::ZeroDuration(), kRetryAfterMax);
  return std::vector<DeliveryResult>(entries, result);
}

}  // namespace escapement::handler
