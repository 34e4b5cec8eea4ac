#include "common/rpc/channel.h"

#include <grpc/grpc.h>

#include "common/rpc/host_port.h"
#include "common/tls/channel_credentials_grpc.h"
#include "grpcpp/grpcpp.h"

namespace escapement {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target,
                                          const ChannelOptions& options) {
  const auto millis = [](absl::Duration d) {
    return static_cast<int>(absl::ToInt64Milliseconds(d));
  };
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.receive_bytes_max));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, millis(options.reconnect_min));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, millis(options.reconnect_max));
  // Despite its name, this limits how long an attempt to connect may last.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, millis(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, millis(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Connections between services ignore a proxy in the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.authority.empty()) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, options.authority);
    const auto host = ParseHostPort(options.authority);
    arguments.SetSslTargetNameOverride(host.ok() ? host->host : options.authority);
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = options.credentials;
  if (credentials == nullptr) {
    credentials = options.tls.has_value() ? NewChannelCredentials(*options.tls)
                                          : grpc::InsecureChannelCredentials();
  }
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

}  // namespace escapement
