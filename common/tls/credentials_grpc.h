// gRPC credentials of a PeerTls or a ServerTls, and the names of a client by its certificate.

#ifndef COMMON_TLS_CREDENTIALS_GRPC_H_
#define COMMON_TLS_CREDENTIALS_GRPC_H_

#include <memory>
#include <string>
#include <vector>

#include "common/tls/server_tls.h"

struct ssl_st;   // OpenSSL's SSL
struct x509_st;  // OpenSSL's X509

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace escapement {

// The subject alternative names of a verified client certificate, which say who the client is.
//
// Each name begins with its kind, as in the configuration of openssl: "DNS:escapement-service",
// "URI:spiffe://cluster/ns/jobs", "email:ops@example.com", "IP:10.0.0.1". So a name of one
// kind cannot pass for another kind. Names with characters beyond printable ASCII are left out.

std::vector<std::string> SubjectAlternativeNames(const x509_st& certificate);

// The names of the client at the other end of a connection whose handshake is complete; none if it
// gave no certificate or the certificate was not verified.
std::vector<std::string> VerifiedClientNames(const ssl_st& connection);

// gRPC channel credentials of a PeerTls. The server's certificate must be from the CA and valid for
// the host of the channel's target.
//
// gRPC reads the files each second; new connections use their present contents. While the files do
// not fit together, no new connection can be made; open connections stay.

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(const PeerTls& tls);

// gRPC server credentials of a ServerTls, and the names of a gRPC client.
//
// gRPC asks for the set in force at each handshake (its "certificate config fetcher"), so gRPC and
// HTTP ports change over together. The FileWatcherCertificateProvider of gRPC is not used: it would
// put a certificate without its key in force as well, and then refuse every handshake.

// For one port. The credentials must outlive the gRPC server.
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(std::shared_ptr<ServerTls> tls);

// The subject alternative names of the verified client certificate of a call.
std::vector<std::string> ClientNames(const grpc::AuthContext& caller);

}  // namespace escapement

#endif  // COMMON_TLS_CREDENTIALS_GRPC_H_
