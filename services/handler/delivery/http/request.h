// HTTP requests under way, and the places of URIs, which successive attempts share.
//
// Threads: one, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::handler {

// Requests for one attempt. A second one follows if a kept connection breaks before an answer: the
// consumer may have closed it as idle. More would be attempts that are not counted. Over https one
// more follows, on a connection of its own: a server that ends an HTTP/2 connection leaves many
// requests on it untouched, and libcurl may repeat them on one that ends next.
inline constexpr int kHttpRequestsMax = 2;
inline constexpr char kBrokenTwice[] =
    "the connection broke before an answer, and so did a second one";

// An attempt to send.
struct HttpAttempt {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  std::shared_ptr<const std::string> body = nullptr;  // set when it is sent
  HttpMicros deadline = 0;
  void* owner = nullptr;  // passed back when the attempt ends

  // The remaining time for libcurl: at least 1, because 0 means no limit.
  long MillisLeft(HttpMicros now) const;
  // Gives the result to the sink and releases the attempt.
  void Answer(DeliveryResult result);
};

// The parts of a URI, as libcurl parses it.
struct HttpPlace {
  std::string uri;
  // True for an http:// URI that a plain request can serve. Otherwise the fields below are empty.
  bool plain = false;
  std::string connect;  // http://host:port/
  std::string host;     // for the Host header
  std::string target;   // path and query
};

// Keeps the last place.
class PlaceCache {
 public:
  const HttpPlace& Of(absl::string_view uri);

 private:
  HttpPlace place_;
};

// The request line and the headers of a plain request. `lines`: the header lines, the last one
// without its CR LF.
std::string RequestHead(absl::string_view method, const HttpPlace& place, absl::string_view lines,
                        size_t body_bytes);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
