// gRPC channel credentials of a PeerTls. The server's certificate must be from the CA and valid for
// the host of the channel's target.
//
// gRPC reads the files each second; new connections use their present contents. While the files do
// not fit together, no new connection can be made; open connections stay.

#ifndef COMMON_TLS_CHANNEL_CREDENTIALS_GRPC_H_
#define COMMON_TLS_CHANNEL_CREDENTIALS_GRPC_H_

#include <memory>

#include "common/tls/peer_tls.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace escapement {

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(const PeerTls& tls);

}  // namespace escapement

#endif  // COMMON_TLS_CHANNEL_CREDENTIALS_GRPC_H_
