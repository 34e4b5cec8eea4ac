#include "services/handler/delivery/http/request_maker.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "escapement/storage/v1/records.pb.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/facts.h"
#include "services/handler/delivery/http/answer.h"

namespace escapement::handler {

namespace {

constexpr char kHttpPort[] = "80";

std::optional<std::string> Part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return std::nullopt;
  std::string copy = text;
  curl_free(text);
  return copy;
}

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

HttpPlace PlaceOf(const std::string& uri) {
  HttpPlace place;
  place.uri = uri;
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, uri.c_str(), 0) != CURLUE_OK) return place;
  const auto host = Part(url.get(), CURLUPART_HOST);
  const auto path = Part(url.get(), CURLUPART_PATH);
  if (Part(url.get(), CURLUPART_SCHEME) != "http" || Part(url.get(), CURLUPART_USER).has_value() ||
      Part(url.get(), CURLUPART_ZONEID).has_value() || !host.has_value() || !path.has_value())
    return place;
  const std::string port = Part(url.get(), CURLUPART_PORT).value_or(kHttpPort);
  const auto query = Part(url.get(), CURLUPART_QUERY);
  std::string target = query.has_value() ? absl::StrCat(*path, "?", *query) : *path;
  if (!IsPlain(*host) || !IsPlain(target)) return place;
  place.plain = true;
  place.connect = absl::StrCat("http://", *host, ":", port, "/");
  place.host = port == kHttpPort ? *host : absl::StrCat(*host, ":", port);
  place.target = std::move(target);
  return place;
}

}  // namespace

long HttpAttempt::MillisLeft(MonotonicMicros now) const {
  return static_cast<long>(std::max<MonotonicMicros>((deadline - now + 999) / 1000, 1));
}

void HttpAttempt::Answer(DeliveryResult result) {
  if (result.message.size() > kDeliveryMessageBytesMax)
    result.message.resize(kDeliveryMessageBytesMax);
  const uint64_t tag = attempt.tag;
  attempt = DeliveryAttempt();
  body = {};
  body_bytes.reset();
  std::exchange(sink, nullptr)->OnResult(tag, std::move(result));
}

const HttpPlace& PlaceCache::Of(absl::string_view uri) {
  if (place_.uri != uri) place_ = PlaceOf(std::string(uri));
  return place_;
}

std::string RequestHead(absl::string_view method, const HttpPlace& place, absl::string_view lines,
                        size_t body_bytes) {
  std::string head = absl::StrCat(method, " ", place.target, " HTTP/1.1\r\nHost: ", place.host,
                                  "\r\nAccept: */*\r\n", lines);
  if (method != "GET") absl::StrAppend(&head, "\r\nContent-Length: ", body_bytes);
  return head.append("\r\n\r\n");
}

absl::Status CloudEventRequests::UseDefinition(const DeliveryContext& context) {
  if (definition_ == context.definition) return absl::OkStatus();
  definition_.reset();
  ASSIGN_OR_RETURN(std::string lines, DefinitionHeaderLines(*context.definition));
  const auto& secrets = context.definition->delivery().target().http().signing_secrets();
  signer_.reset();
  if (!secrets.empty()) {
    ASSIGN_OR_RETURN(WebhookSigner signer,
                     WebhookSigner::Make(std::vector<std::string>(secrets.begin(), secrets.end())));
    signer_ = std::move(signer);
  }
  definition_lines_ = std::move(lines);
  definition_ = context.definition;
  return absl::OkStatus();
}

absl::Status CloudEventRequests::UseContext(const std::shared_ptr<const DeliveryContext>& context) {
  if (context_ == context) return absl::OkStatus();
  context_.reset();
  ASSIGN_OR_RETURN(std::string type, ContentTypeLine(*context));
  ASSIGN_OR_RETURN(std::string lines, ContextHeaderLines(*context));
  content_type_line_ = std::move(type);
  context_lines_ = std::move(lines);
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
  request->body_bytes = attempt.context;
  request->tls = target.has_tls() ? &target.tls() : nullptr;
  request->lines = content_type_line_;
  request->lines.append(definition_lines_);
  request->lines.append(context_lines_);
  if (signer_.has_value()) {
    const int64_t now = absl::ToUnixSeconds(absl::Now());
    absl::StrAppend(
        &request->lines, "webhook-id: ", attempt.event_id, "\r\nwebhook-timestamp: ", now,
        "\r\nwebhook-signature: ", signer_->Sign(attempt.event_id, now, context.payload), "\r\n");
  }
  AppendAttemptHeaderLines(attempt, &request->lines);
  return absl::OkStatus();
}

DeliveryResult CloudEventRequests::ResultOf(const HttpAnswer& answer, bool has_token) const {
  return ResultOfAnswer(answer, has_token);
}

absl::Status PingRequests::Make(const DeliveryAttempt& attempt, HttpRequest* request) {
  request->uri = attempt.context->definition->delivery().target().ping().uri();
  request->method = "GET";
  request->lines = "User-Agent: Escapement";
  request->body = {};
  return absl::OkStatus();
}

DeliveryResult PingRequests::ResultOf(const HttpAnswer& answer, bool has_token) const {
  return ResultOfAnswer(answer, has_token);
}

namespace {

// Slack cuts longer texts.
constexpr size_t kSlackCharactersMax = 40'000;

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
    ASSIGN_OR_RETURN(EventTemplate text, EventTemplate::Parse(target.text()));
    text_ = std::move(text);
    definition_ = context.definition;
  }
  const std::string text = text_->Fill(EventFactsOf(attempt), kSlackCharactersMax, Escaped,
                                       EventTemplate::Unit::kCharacters);
  if (text.empty()) return absl::InvalidArgumentError("the message is empty");
  request->uri = target.webhook_url();
  request->method = "POST";
  request->lines = "Content-Type: application/json\r\nUser-Agent: Escapement";
  auto body = std::make_shared<const std::string>(
      nlohmann::json({{"text", text}})
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  request->body = *body;
  request->body_bytes = std::move(body);
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
