// GrpcTransport: delivers events to gRPC servers. TargetChannel: the channels to one of its
// targets.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "common/net/name_resolver.h"
#include "common/rpc/host_port.h"
#include "services/handler/delivery/delivery_transport.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace escapement::storage::v1 {
class GrpcTargetRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

// GrpcTransport: delivers events to servers of escapement.v1.TriggerReceiver, over long-lived
// streams.
//
// Each target (DeliveryContext::target_key) has streams_per_target streams. A stream opens with the
// first attempt and closes when nothing was sent for idle_timeout. Results are matched by delivery
// number.
//
// If a stream breaks, its written and unanswered attempts end as kUnknown, or as kFailed if it had
// no connection. Attempts that were not written go to the next stream, if the broken one had ever
// got a result; otherwise the target is down, and they end as kFailed. Names are resolved again
// before each connection, and only addresses that the AddressRule allows are connected to. Once a
// channel is older than connection_age_max, further attempts go to a new one; the old one stays
// until its attempts have ended. The transport reconnects after
// reconnect_min, doubling up to reconnect_max. Attempts wait for that while their timeouts run.
//
// If an attempt has timed out, and no result has come for silence_max since it was written, the
// stream is replaced: behind a proxy, another receiver may answer. The replacement waits for the
// other attempts of the stream. It does not happen while one of them may take longer than
// silence_max from now.
//
//   ACCEPTED    kAccepted
//   FAILED      kFailed with the receiver's retry_after (at most 24 h), and always with a text
//   REJECTED    kRejected
//   timeout, broken stream                    kUnknown
//   no connection, not written in time, no
//   address that is allowed                   kFailed, not_sent
//
// Threads: Send may be called from any thread. Results come on gRPC's threads and on the
// transport's own thread, which watches deadlines. The destructor ends outstanding attempts as
// kUnknown.
class GrpcTransport final : public DeliveryTransport {
 public:
  struct Options {
    // Each stream has a connection of its own. One stream is fastest on two cores.
    int streams_per_target = 1;
    absl::Duration reconnect_min = absl::Milliseconds(50);
    absl::Duration reconnect_max = absl::Seconds(1);
    absl::Duration connect_timeout = absl::Seconds(10);
    absl::Duration idle_timeout = absl::Seconds(60);
    absl::Duration silence_max = absl::Seconds(10);
    // An older channel carries no further attempt.
    absl::Duration connection_age_max = kConnectionAgeMax;
    // Which addresses may be connected to. Null: only what is globally reachable.
    std::shared_ptr<const AddressRule> addresses = nullptr;
    // Must outlive the transport. Null: one of its own.
    NameResolver* resolver = nullptr;
  };

  explicit GrpcTransport(const Options& options);
  ~GrpcTransport() override;
  GrpcTransport(const GrpcTransport&) = delete;
  GrpcTransport& operator=(const GrpcTransport&) = delete;

  // The target of the definition must be a gRPC target.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

// TargetChannel: the channels to one gRPC target.
//
// Threads: immutable after it was made.
class TargetChannel {
 public:
  TargetChannel(const GrpcTransport::Options& options, const storage::v1::GrpcTargetRecord& target);

  // Host and port of the target's URI.
  const absl::StatusOr<HostPort>& place() const { return place_; }
  // True if the URI has an address and no name.
  bool has_address() const;

  // A channel to these addresses, at least one. Those of the family of the first one are used,
  // because a gRPC target has addresses of one family. The server is called by the target's name.
  std::shared_ptr<grpc::Channel> Open(const std::vector<std::string>& addresses) const;

 private:
  const GrpcTransport::Options options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const absl::StatusOr<HostPort> place_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_GRPC_TRANSPORT_H_
