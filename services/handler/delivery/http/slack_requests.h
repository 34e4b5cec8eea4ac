// SlackRequests: the requests of slack targets. They are incoming webhooks
// (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks): a POST of
// {"text": ...}. The text comes from the target's template. Values of the event are escaped in it,
// so that a payload cannot mention people or make links.
//
//   200                      kAccepted
//   429                      kFailed with retry_after; Slack takes about one message a second
//   400, 403, 404, 410       kRejected with Slack's word for it (invalid_payload,
//                            action_prohibited, no_service, channel_is_archived, ...)
//   404, 410                 also gone: the webhook or its channel does not exist any more
//   any other                kFailed

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_SLACK_REQUESTS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_SLACK_REQUESTS_H_

#include <memory>
#include <optional>

#include "common/templates/event_template.h"
#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

class SlackRequests final : public HttpRequestMaker {
 public:
  // INVALID_ARGUMENT: the template is malformed, or the message is empty.
  absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) override;
  DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const override;

 private:
  // The template of the last definition, which the next attempt often shares.
  std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  std::optional<EventTemplate> text_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_SLACK_REQUESTS_H_
