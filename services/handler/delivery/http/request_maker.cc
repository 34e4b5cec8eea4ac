#include "services/handler/delivery/http/request_maker.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/status/return_if_error.h"
#include "escapement/storage/v1/records.pb.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/facts.h"
#include "services/handler/delivery/http/headers.h"

namespace escapement::handler {

absl::Status CloudEventRequests::UseDefinition(const DeliveryContext& context) {
  if (definition_ == context.definition) return absl::OkStatus();
  definition_.reset();
  absl::StatusOr<std::string> lines = DefinitionHeaderLines(*context.definition);
  if (!lines.ok()) return lines.status();
  const auto& secrets = context.definition->delivery().target().http().signing_secrets();
  signer_.reset();
  if (!secrets.empty()) {
    absl::StatusOr<WebhookSigner> signer =
        WebhookSigner::Make(std::vector<std::string>(secrets.begin(), secrets.end()));
    if (!signer.ok()) return signer.status();
    signer_ = *std::move(signer);
  }
  definition_lines_ = *std::move(lines);
  definition_ = context.definition;
  return absl::OkStatus();
}

absl::Status CloudEventRequests::UseContext(const std::shared_ptr<const DeliveryContext>& context) {
  if (context_ == context) return absl::OkStatus();
  context_.reset();
  absl::StatusOr<std::string> type = ContentTypeLine(*context);
  if (!type.ok()) return type.status();
  absl::StatusOr<std::string> lines = ContextHeaderLines(*context);
  if (!lines.ok()) return lines.status();
  content_type_line_ = *std::move(type);
  context_lines_ = *std::move(lines);
  context_ = context;
  return absl::OkStatus();
}

absl::Status CloudEventRequests::Make(const DeliveryAttempt& attempt, HttpRequest* request) {
  const DeliveryContext& context = *attempt.context;
  RETURN_IF_ERROR(UseDefinition(context));
  RETURN_IF_ERROR(UseContext(attempt.context));
  const storage::v1::HttpTargetRecord& target = context.definition->delivery().target().http();
  request->uri = target.uri();
  request->method = target.method();
  request->body = context.payload;
  request->tls = target.has_tls() ? &target.tls() : nullptr;
  request->lines = content_type_line_;
  request->lines.append(definition_lines_);
  request->lines.append(context_lines_);
  if (signer_.has_value()) {
    const int64_t now = absl::ToUnixSeconds(absl::Now());
    absl::StrAppend(
        &request->lines, "webhook-id: ", attempt.event_id, "\r\nwebhook-timestamp: ", now,
        "\r\nwebhook-signature: ", signer_->Sign(attempt.event_id, now, *context.payload), "\r\n");
  }
  AppendAttemptHeaderLines(attempt, &request->lines);
  return absl::OkStatus();
}

DeliveryResult CloudEventRequests::ResultOf(const HttpAnswer& answer, bool has_token) const {
  return ResultOfAnswer(answer, has_token);
}

absl::Status PingRequests::Make(const DeliveryAttempt& attempt, HttpRequest* request) {
  static const auto* const empty =
      new std::shared_ptr<const std::string>(std::make_shared<const std::string>());
  request->uri = attempt.context->definition->delivery().target().ping().uri();
  request->method = "GET";
  request->lines = "User-Agent: Escapement";
  request->body = *empty;
  return absl::OkStatus();
}

DeliveryResult PingRequests::ResultOf(const HttpAnswer& answer, bool has_token) const {
  return ResultOfAnswer(answer, has_token);
}

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
