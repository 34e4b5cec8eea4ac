// NewChannel: a gRPC channel to a service of the platform. All channels behave alike.
//
// A channel connects when it is first needed. It reconnects after 50 ms, growing to 1 s, so a
// restart on the same machine is noticed at once. An attempt to connect may last 1 s. While calls
// are open, a silent connection is pinged every 10 s. Nothing is compressed.
//
// Threads: any.

#ifndef COMMON_RPC_CHANNEL_H_
#define COMMON_RPC_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace escapement {

struct ChannelOptions {
  size_t receive_bytes_max = 64 << 20;
  absl::Duration reconnect_min = absl::Milliseconds(50);
  absl::Duration reconnect_max = absl::Seconds(1);
  // The longest an attempt to connect may last, including HTTP/2's settings. A peer without
  // processor time may need longer than the pauses between attempts. On the other hand, an address
  // that drops packets is given up only after this time.
  absl::Duration connect_timeout = absl::Seconds(1);
  absl::Duration keepalive = absl::Seconds(10);
  // The connection counts as dead if a ping is unanswered for this long.
  absl::Duration keepalive_timeout = absl::Seconds(5);
  // False: share a connection with other channels of this process to the same target.
  bool own_connection = true;
  // Nothing: no TLS. credentials_grpc.h says when its files are read.
  std::optional<PeerTls> tls = std::nullopt;
  // Not null: these instead of `tls`.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // The server's name, if `target` is its address only: the name is sent, and with TLS it must be
  // in the server's certificate. Empty: the target's.
  std::string authority = {};
};

// `target`: host:port or a gRPC target ("dns:///store:7400").
std::shared_ptr<grpc::Channel> NewChannel(const std::string& target,
                                          const ChannelOptions& options = {});

// RouteGrpcLog: what gRPC logs becomes lines of our log, at most ten a second.
//
// gRPC logs a line for each failed handshake, so any client can cause as many as it likes.

// For the rest of the process. Call it before the first use of gRPC.
void RouteGrpcLog();

}  // namespace escapement

#endif  // COMMON_RPC_CHANNEL_H_
