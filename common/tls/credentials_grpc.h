// gRPC channel credentials of a PeerTls. The server's certificate must be from the CA and valid for
// the host of the channel's target.
//
// gRPC reads the files each second; new connections use their present contents. While the files do
// not fit together, no new connection can be made; open connections stay.

#ifndef COMMON_TLS_CREDENTIALS_GRPC_H_
#define COMMON_TLS_CREDENTIALS_GRPC_H_

#include <memory>
#include <string>
#include <vector>

#include "common/tls/server_tls.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace grpc {
class AuthContext;
class ServerCredentials;
}  // namespace grpc

namespace escapement {

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(const PeerTls& tls);

// gRPC server credentials of a ServerTls, and the names of a gRPC client.
//
// gRPC asks for the set in force at each handshake (its "certificate config fetcher"), so gRPC and
// HTTP ports change over together. The FileWatcherCertificateProvider of gRPC
// is not used: it would put a certificate without its key in force as well, and then refuse every
// handshake.

// For one port. The credentials must outlive the gRPC server.
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(std::shared_ptr<ServerTls> tls);

// The names of the verified client certificate of a call, as in client_names.h.
std::vector<std::string> ClientNames(const grpc::AuthContext& caller);

}  // namespace escapement

#endif  // COMMON_TLS_CREDENTIALS_GRPC_H_
