#include "services/handler/delivery/http/slack_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "escapement/storage/v1/records.pb.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/event_facts.h"

namespace escapement::handler {
namespace {

// Slack cuts longer texts.
constexpr size_t kTextBytesMax = 40'000;

// https://docs.slack.dev/messaging/formatting-message-text#escaping
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Slack refuses the message, the channel or the webhook.
bool IsRefusal(int status) {
  return status == 400 || status == 403 || status == 404 || status == 410;
}

// The webhook or its channel does not exist any more.
bool IsGone(int status) { return status == 404 || status == 410; }

}  // namespace

absl::Status SlackRequests::Make(const DeliveryAttempt& attempt, HttpRequest* request) {
  const DeliveryContext& context = *attempt.context;
  const storage::v1::SlackTargetRecord& target = context.definition->delivery().target().slack();
  if (definition_ != context.definition) {
    definition_.reset();
    absl::StatusOr<EventTemplate> text = EventTemplate::Parse(target.text());
    if (!text.ok()) return text.status();
    text_ = *std::move(text);
    definition_ = context.definition;
  }
  const std::string text = text_->Fill(EventFactsOf(attempt), kTextBytesMax, Escaped);
  if (text.empty()) return absl::InvalidArgumentError("the message is empty");
  request->uri = target.webhook_url();
  request->method = "POST";
  request->lines = "Content-Type: application/json\r\nUser-Agent: Escapement";
  request->body = std::make_shared<const std::string>(
      nlohmann::json({{"text", text}})
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return absl::OkStatus();
}

DeliveryResult SlackRequests::ResultOf(const HttpAnswer& answer, bool /*has_token*/) const {
  DeliveryResult result = ResultWithAnswer(answer);
  if (answer.status == 200) {
    result.status = DeliveryStatus::kAccepted;
    return result;
  }
  result.gone = IsGone(answer.status);
  result.status = IsRefusal(answer.status) ? DeliveryStatus::kRejected : DeliveryStatus::kFailed;
  result.message = absl::StrCat("Slack answered ", answer.status, BodyInMessage(answer));
  if (SaysWhenToRetry(answer.status))
    result.retry_after = std::clamp(answer.retry_after, absl::ZeroDuration(), kRetryAfterMax);
  return result;
}

}  // namespace escapement::handler
