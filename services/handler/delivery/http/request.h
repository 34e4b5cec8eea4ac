// What the requests of an HTTP transport have in common, kept from one to the next.
//
// Threads: one (the transport's).

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::handler {

// Of one attempt: the second when a kept connection breaks before an answer, which its consumer may
// have closed as idle. More would be attempts that nobody counts.
inline constexpr int kHttpRequestsMax = 2;
inline constexpr char kBrokenTwice[] =
    "the connection broke before an answer, and so did a second one";

// An attempt that is to be sent.
struct HttpAttempt {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  HttpMicros deadline = 0;
  void* owner = nullptr;  // given back with its end

  // For libcurl: at least 1, since 0 is no limit.
  long MillisLeft(HttpMicros now) const;
  // Gives the result and lets go of the attempt.
  void Answer(DeliveryResult result);
};

// Keeps the header lines of the last definition and the last row, which the next attempt often
// shares.
class HeaderCache {
 public:
  // Sets `*lines` to all header lines of the attempt. INVALID_ARGUMENT as the functions of
  // headers.h.
  absl::Status SetLines(const DeliveryAttempt& attempt, std::string* lines);

 private:
  std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  std::string definition_lines_;
  std::shared_ptr<const DeliveryContext> context_;
  std::string content_type_line_;  // of the context
  std::string context_lines_;
};

// Where a URI leads, as libcurl reads it.
struct HttpPlace {
  std::string uri;
  // http:// with nothing in it that needs more than a plain request. Otherwise the rest is empty.
  bool plain = false;
  std::string connect;  // http://host:port/
  std::string host;     // as the header has it
  std::string target;   // path and query
};

// Keeps the last place.
class PlaceCache {
 public:
  const HttpPlace& Of(const std::string& uri);

 private:
  HttpPlace place_;
};

// The whole of a plain request but for its body. `lines`: the headers', the last one without its
// end.
std::string RequestHead(const std::string& method, const HttpPlace& place, const std::string& lines,
                        size_t body_bytes);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_H_
