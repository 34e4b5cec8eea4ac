#include "services/handler/delivery/http/answer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"

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
  return {.status = DeliveryStatus::kFailed, .message = "the address of the target is not allowed"};
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

}  // namespace escapement::handler
