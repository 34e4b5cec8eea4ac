// HttpRequestMaker: what one attempt is as an HTTP request, for each kind of target: targets of
// HTTP (CloudEventRequests), ping (PingRequests) and slack (SlackRequests). Also an attempt that is
// under way (HttpAttempt), and the places of URIs (HttpPlace, PlaceCache).

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/signing/webhook_signer.h"
#include "common/templates/event_template.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/answer.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::storage::v1 {
class TlsRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

// HTTP requests under way, and the places of URIs, which successive attempts share.
//
// Threads: one, the transport's.

// Requests for one attempt. A second one follows if a kept connection breaks before an answer: the
// consumer may have closed it as idle. More would be attempts that are not counted. Over https one
// more follows, on a connection of its own.
inline constexpr int kHttpRequestsMax = 2;
inline constexpr char kBrokenTwice[] =
    "the connection broke before an answer, and so did a second one";

// An attempt to send.
struct HttpAttempt {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  absl::string_view body = {};                       // set when it is sent
  std::shared_ptr<const void> body_bytes = nullptr;  // keeps the bytes of `body`
  MonotonicMicros deadline = 0;
  MonotonicMicros started = 0;  // when it got its turn
  void* owner = nullptr;        // passed back when the attempt ends

  // The remaining time for libcurl: at least 1, because 0 means no limit.
  long MillisLeft(MonotonicMicros now) const;
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

struct HttpRequest {
  // `uri`, `method` and `tls` point into the attempt's definition, or to constants.
  absl::string_view uri;
  absl::string_view method;
  // Header lines, each but the last one with its CR LF; at least one. A Content-Type must be the
  // first: libcurl looks for it there, and otherwise sends one of its own.
  std::string lines;
  absl::string_view body = {};                  // empty for GET
  std::shared_ptr<const void> body_bytes = {};  // keeps the bytes of `body`
  const storage::v1::TlsRecord* tls = nullptr;  // null: the authorities of the system
};

// HttpRequestMaker: what one attempt is as an HTTP request, and what the answer means. One
// implementation for each kind of target that is one request for each event.
//
// Threads: one, the transport's.
class HttpRequestMaker {
 public:
  virtual ~HttpRequestMaker() = default;
  // INVALID_ARGUMENT: the attempt can never be sent.
  virtual absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) = 0;
  virtual DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const = 0;
};

// Called once for each thread.
using NewHttpRequestMaker = std::function<std::unique_ptr<HttpRequestMaker>()>;

// CloudEventRequests: the requests of HTTP targets. They are CloudEvents in binary mode, signed if
// the target has signing secrets.
//
// Keeps what successive attempts often share: the lines and the signer of the last definition, and
// the lines of the last row.
class CloudEventRequests final : public HttpRequestMaker {
 public:
  // INVALID_ARGUMENT as answer.h and WebhookSigner::Make do.
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

// PingRequests: the requests of ping targets. They are GETs without a body and without facts of the
// event.
//
// The result is as for HTTP targets (http_transport.h).
class PingRequests final : public HttpRequestMaker {
 public:
  absl::Status Make(const DeliveryAttempt& attempt, HttpRequest* request) override;
  DeliveryResult ResultOf(const HttpAnswer& answer, bool has_token) const override;
};

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

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_REQUEST_MAKER_H_
