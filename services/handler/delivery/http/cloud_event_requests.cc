#include "services/handler/delivery/http/cloud_event_requests.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status/return_if_error.h"
#include "escapement/storage/v1/records.pb.h"
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

}  // namespace escapement::handler
