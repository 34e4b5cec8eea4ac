// HttpTransport: delivers events, each as one HTTP request, to http:// and https:// targets. A
// HttpRequestMaker says what the requests are. They go over HTTP/1.1 (ADR 26).
//
// A few threads drive all connections, each with its share of the bounds. libcurl resolves names,
// connects, and carries requests that are not plain, mostly https (exchange.h). Our own code writes
// plain requests and reads their answers (plain_requests.h). The attempts of an origin
// (DeliveryContext::target_key) go to one thread, or to all threads if that one is full. Origins in
// trouble share one further thread: a TLS handshake costs a thread a
// millisecond or two, and a target that hangs makes many of them.
//
// Connections are kept alive and shared by the attempts of one origin. Attempts beyond
// in_flight_per_origin_max wait in order while their timeouts run. Redirects are not followed, the
// proxies of the environment are not used, and certificates are checked. The first
// response_bytes_max of a response's body are read and dropped.
//
// If the receiver has just closed a kept connection, the attempt is sent again on a new one, over
// https up to twice. The receiver may then see it more than once (same event id and attempt), as
// after every broken connection.
//
//   2xx                      kAccepted; with a token, the response header Escapement-Outcome
//                            (succeeded or failed, in any case) sets the result's work
//   410                      kRejected, and the target is gone
//   429, 503 + Retry-After   kFailed with retry_after (at most kRetryAfterMax)
//   any other status         kFailed
//   an address that is not allowed, no such host, no
//   connection, bad certificate: nothing was sent               kFailed, not_sent
//   timeout, reset                                              kUnknown
//   half of the timeout passed while waiting for a connection   kUnsent
//   a URI or header that is not valid in a request              kRejected
//
// Threads: Send may be called from any thread. Results come on the transport's threads. The
// destructor ends outstanding attempts as kUnknown.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

class TroubledOrigins;

class HttpTransport final : public DeliveryTransport {
 public:
  struct Options {
    // One thread makes some 120,000 plain requests a second, or 40,000 others. There are at most as
    // many threads as the smallest bound below, and one more for origins in trouble.
    int threads = 1;
    // Concurrent requests, and so connections, per origin. More hide latency, fewer cost less CPU.
    // Requests that hang while the origin answers others do not count (HangingAttempts), at most
    // half of in_flight_max.
    int in_flight_per_origin_max = 64;
    // The same bound for an origin that has not answered yet, or that answered nothing while its
    // last request timed out. Each answer doubles it. So a few hanging receivers do not take all
    // connections.
    int in_flight_unanswered_max = 16;
    // Requests to all origins, and half as many more to origins in trouble. Each takes about 40
    // KiB.
    int in_flight_max = 1024;
    // Idle connections that are kept, for all origins.
    int connections_max = 1024;
    size_t response_bytes_max = 64 << 10;
    absl::Duration connect_timeout = absl::Seconds(10);
    // An older connection carries no further request; whole seconds.
    absl::Duration connection_age_max = kConnectionAgeMax;
    // Which addresses may be connected to. Null: only what is globally reachable.
    std::shared_ptr<const AddressRule> addresses = nullptr;
    // Makes the requests. Null: CloudEventRequests.
    NewHttpRequestMaker new_maker = nullptr;
  };

  explicit HttpTransport(const Options& options);
  ~HttpTransport() override;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // The target of the definition must be of the maker's kind.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Loop;
  const std::unique_ptr<TroubledOrigins> troubled_;  // the loops use it
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unique_ptr<Loop> troubled_loop_;
};

// The flags of the HTTP transport, and the options that they make.
//
// Threads: call after the flags are parsed, on one thread.

// Appends one sentence for each flag with an invalid value.
void ValidateHttpFlags(std::vector<std::string>& errors);

HttpTransport::Options HttpOptionsFromFlags(std::shared_ptr<const AddressRule> addresses);

// TroubledOrigins: the origins whose last requests did not all get an answer. They have a thread of
// their own, so that their timeouts and their many new connections do not delay requests to others.
//
// Threads: any.

class TroubledOrigins {
 public:
  // An origin is in trouble until so many requests in succession got an answer.
  static constexpr int kAnswersInSuccession = 64;
  // With more, all are forgotten, and those that still are in trouble are noted again.
  static constexpr size_t kOriginsMax = 4096;

  bool Has(const std::string& key) const;
  // A request ended. `answered`: with an answer, whatever its status.
  void OnEnd(const std::string& key, bool answered);

 private:
  std::atomic<bool> any_{false};  // so that without trouble an answer costs nothing
  mutable absl::Mutex mutex_;
  // Answers in succession.
  absl::flat_hash_map<std::string, int> origins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_HTTP_TRANSPORT_H_
