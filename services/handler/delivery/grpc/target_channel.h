// TargetChannel: the channels to one gRPC target.
//
// Threads: immutable after it was made.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_TARGET_CHANNEL_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_TARGET_CHANNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/host_port.h"
#include "services/handler/delivery/grpc/grpc_transport.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace escapement::storage::v1 {
class GrpcTargetRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

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

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_TARGET_CHANNEL_H_
