// GrpcTransport: delivers events to servers of escapement.v1.TriggerReceiver, over long-lived
// streams.
//
// Each target (DeliveryContext::target_key) has streams_per_target streams, opened with the first
// attempt and closed when nothing was sent for idle_timeout. Results are matched by delivery
// number. When a stream breaks, what was written to it and not answered is kUnknown; what was not
// written yet goes to the next stream if the broken one had ever been answered, and is kUnknown
// otherwise (the target is down). A target whose stream broke is tried again after reconnect_min,
// doubling up to reconnect_max; attempts wait for that, their timeout running. A stream on which an
// attempt has timed out, and nothing was answered for silence_max since that was written, is given
// up for a new one once all others on it have ended (while one of them may take longer than
// silence_max yet, it goes on): behind a proxy there may be another receiver then.
//
//   ACCEPTED    kAccepted
//   FAILED      kFailed with the receiver's retry_after (at most 24 h)
//   REJECTED    kRejected
//   timeout, broken stream, no connection     kUnknown
//
// Threads: Send from any thread; results come on gRPC's threads and on the transport's own, which
// watches deadlines. Destruction answers what is outstanding with kUnknown before it returns.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class GrpcTransport final : public DeliveryTransport {
 public:
  struct Options {
    // Each has a connection of its own. One is fastest on two cores.
    int streams_per_target = 1;
    absl::Duration reconnect_min = absl::Milliseconds(50);
    absl::Duration reconnect_max = absl::Seconds(1);
    absl::Duration connect_timeout = absl::Seconds(10);
    absl::Duration idle_timeout = absl::Seconds(60);
    absl::Duration silence_max = absl::Seconds(10);
  };

  explicit GrpcTransport(const Options& options);
  ~GrpcTransport() override;
  GrpcTransport(const GrpcTransport&) = delete;
  GrpcTransport& operator=(const GrpcTransport&) = delete;

  // The definition's target is a grpc one.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_
