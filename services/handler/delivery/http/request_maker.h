// HttpRequestMaker: what one attempt is as an HTTP request, and what the answer means. One
// implementation for each kind of target that is one request for each event.
//
// Threads: one, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/answer.h"

namespace escapement::storage::v1 {
class TlsRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

struct HttpRequest {
  // `uri`, `method` and `tls` point into the attempt's definition, or to constants.
  absl::string_view uri;
  absl::string_view method;
  // Header lines, each but the last one with its CR LF; at least one. A Content-Type must be the
  // first: libcurl looks for it there, and otherwise sends one of its own.
  std::string lines;
  std::shared_ptr<const std::string> body;      // never null; empty for GET
  const storage::v1::TlsRecord* tls = nullptr;  // null: the authorities of the system
};

class HttpRequestMaker {
 public:
  virtual ~HttpRequestMaker() = default;
  // INVALID_ARGUMENT: the attempt can never be sent.
  virtual absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) = 0;
  virtual DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const = 0;
};

// Called once for each thread.
using NewHttpRequestMaker = std::function<std::unique_ptr<HttpRequestMaker>()>;

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_
