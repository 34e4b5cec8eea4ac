// Parts of HTTP requests that successive attempts share: header lines and the place of a URI.
//
// Threads: one, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::handler {

// Requests for one attempt. A second one follows if a kept connection breaks before an answer: the
// consumer may have closed it as idle. More would be attempts that are not counted.
inline constexpr int kHttpRequestsMax = 2;
inline constexpr char kBrokenTwice[] =
    "the connection broke before an answer, and so did a second one";

// An attempt to send.
struct HttpAttempt {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  HttpMicros deadline = 0;
  void* owner = nullptr;  // passed back when the attempt ends

  // The remaining time for libcurl: at least 1, because 0 means no limit.
  long MillisLeft(HttpMicros now) const;
  // Gives the result to the sink and releases the attempt.
  void Answer(DeliveryResult result);
};

// Keeps the header lines of the last definition and the last row, which the next attempt often
// shares.
class HeaderCache {
 public:
  // Sets `*lines` to all header lines of the attempt. Returns INVALID_ARGUMENT as headers.h does.
  absl::Status SetLines(const DeliveryAttempt& attempt, std::string* lines);

 private:
  std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  std::string definition_lines_;
  std::shared_ptr<const DeliveryContext> context_;
  std::string content_type_line_;  // for context_
  std::string context_lines_;
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
  const HttpPlace& Of(const std::string& uri);

 private:
  HttpPlace place_;
};

// The request line and the headers of a plain request. `lines`: the header lines, the last one
// without its CR LF.
std::string RequestHead(const std::string& method, const HttpPlace& place, const std::string& lines,
                        size_t body_bytes);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
