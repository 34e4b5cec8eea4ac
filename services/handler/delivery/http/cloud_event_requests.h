// CloudEventRequests: the requests of HTTP targets. They are CloudEvents in binary mode, signed if
// the target has signing secrets.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_CLOUD_EVENT_REQUESTS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_CLOUD_EVENT_REQUESTS_H_

#include <memory>
#include <optional>
#include <string>

#include "common/signing/webhook_signer.h"
#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

// Keeps what successive attempts often share: the lines and the signer of the last definition, and
// the lines of the last row.
class CloudEventRequests final : public HttpRequestMaker {
 public:
  // INVALID_ARGUMENT as headers.h and WebhookSigner::Make do.
  absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) override;
  // Follows the table in http_transport.h.
  DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const override;

 private:
  absl::Status UseDefinition(const DeliveryContext& context);
  absl::Status UseContext(const std::shared_ptr<const DeliveryContext>& context);

  std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  std::string definition_lines_;
  std::optional<WebhookSigner> signer_;  // signs for definition_; unset: it has no secrets
  std::shared_ptr<const DeliveryContext> context_;
  std::string content_type_line_;  // for context_
  std::string context_lines_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_CLOUD_EVENT_REQUESTS_H_
