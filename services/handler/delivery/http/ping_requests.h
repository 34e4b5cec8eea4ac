// PingRequests: the requests of ping targets. They are GETs without a body and without facts of the
// event.
//
// The result is as for HTTP targets (http_transport.h).

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_PING_REQUESTS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_PING_REQUESTS_H_

#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

class PingRequests final : public HttpRequestMaker {
 public:
  absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) override;
  DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const override;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_PING_REQUESTS_H_
