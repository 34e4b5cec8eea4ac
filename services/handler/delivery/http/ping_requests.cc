#include "services/handler/delivery/http/ping_requests.h"

#include <memory>
#include <string>

#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

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

}  // namespace escapement::handler
