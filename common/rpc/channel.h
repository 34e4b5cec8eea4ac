// NewChannel: a gRPC channel to a service of the platform, with one set of habits.
//
// It connects on demand, reconnects after 50 ms growing to 1 s (a restart on the same machine is
// noticed at once), gives a connection 1 s to be made, pings a silent one every 10 s while calls
// are open, and never compresses.
//
// Threads: any.

#ifndef COMMON_RPC_CHANNEL_H_
#define COMMON_RPC_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement {

struct ChannelOptions {
  size_t receive_bytes_max = 64 << 20;
  absl::Duration reconnect_min = absl::Milliseconds(50);
  absl::Duration reconnect_max = absl::Seconds(1);
  // How long a connection may take to be made, HTTP/2's settings included. A peer without a
  // processor may take longer than the pauses between attempts; but what swallows packets is left
  // only after this.
  absl::Duration connect_timeout = absl::Seconds(1);
  absl::Duration keepalive = absl::Seconds(10);
  // How long a ping may stay unanswered before the connection counts as dead.
  absl::Duration keepalive_timeout = absl::Seconds(5);
  // False: share a connection with other channels of the process to the same target.
  bool own_connection = true;
};

// `target`: host:port or a gRPC target ("dns:///store:7400").
std::shared_ptr<grpc::Channel> NewChannel(const std::string& target,
                                          const ChannelOptions& options = {});

}  // namespace escapement

#endif  // COMMON_RPC_CHANNEL_H_
