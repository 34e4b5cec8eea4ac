// HttpTransport: delivers events by HTTP/1.1 to http:// and https:// targets.
//
// A few threads of its own drive all connections, each with its share of what is allowed. libcurl
// looks names up, connects and carries what is more than a plain request, https above all
// (exchange.h); plain requests are written and answers read by ourselves
// (plain_requests.h). An origin's attempts (DeliveryContext::target_key) go to one thread,
// and are shared out among all of them while that one has more than it may have in flight.
// Connections are kept alive and shared by the attempts of one origin; attempts beyond
// in_flight_per_origin_max wait in their order, their timeout running. Redirects are not followed,
// the environment's proxies are not used, certificates are checked. The first response_bytes_max of
// a response's body are read and dropped.
//
// An attempt that meets a kept connection which the receiver has just closed is sent again on a new
// one: the receiver may then see it twice (same event id and attempt), as after every broken
// connection.
//
//   2xx                      kAccepted; of an attempt with a token the response's header
//                            Escapement-Outcome, succeeded or failed (in any case), is its work
//   410                      kRejected
//   429, 503 + Retry-After   kFailed with retry_after (at most kRetryAfterMax)
//   any other status         kFailed
//   timeout, reset, refused, no such host, bad certificate      kUnknown
//   half of the timeout spent waiting for a connection          kUnsent
//   a URI or header that no request can be made of              kRejected
//
// Threads: Send from any thread; results come on the transport's threads. Destruction answers what
// is outstanding with kUnknown before it returns.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class HttpTransport final : public DeliveryTransport {
 public:
  struct Options {
    // One of them makes some 120,000 plain requests a second, of others some 40,000. There are no
    // more than each bound below can be divided by.
    int threads = 1;
    // Requests at once, and so connections, to one origin: more hide latency, fewer cost less CPU.
    int in_flight_per_origin_max = 64;
    // … of one that has answered nothing yet, or whose last request timed out; each answer doubles
    // it. So a few receivers that hang do not take all there is.
    int in_flight_unanswered_max = 16;
    // Of all origins; hanging receivers can hold this many back. About 40 KiB each while in use.
    int in_flight_max = 1024;
    // Idle connections that are kept, of all origins.
    int connections_max = 1024;
    size_t response_bytes_max = 64 << 10;
    absl::Duration connect_timeout = absl::Seconds(10);
  };

  explicit HttpTransport(const Options& options);
  ~HttpTransport() override;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // The definition's target is an http one.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Loop;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_
