// gRPC credentials of a PeerTls or a TlsFiles, and the names of a client by its certificate.

#ifndef COMMON_TLS_CREDENTIALS_GRPC_H_
#define COMMON_TLS_CREDENTIALS_GRPC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/memory_file.h"
#include "common/tls/tls_files.h"

struct ssl_st;   // OpenSSL's SSL
struct x509_st;  // OpenSSL's X509

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace escapement {

// The subject alternative names of a verified client certificate, which say who the client is, and
// kServiceAuthority if the certificate may be that of a service.
//
// Each name begins with its kind, as in the configuration of openssl: "DNS:escapement-service",
// "URI:spiffe://cluster/ns/jobs", "email:ops@example.com", "IP:10.0.0.1". So a name of one
// kind cannot pass for another kind. Names with characters beyond printable ASCII are left out.

std::vector<std::string> SubjectAlternativeNames(const x509_st& certificate);

// The names of the client at the other end of a connection to a server of `tls` whose handshake is
// complete; none if it gave no certificate or the certificate was not verified.
std::vector<std::string> VerifiedClientNames(const ssl_st& connection, TlsFiles& tls);

// gRPC channel credentials of a PeerTls. The server's certificate must be from the CA and valid for
// the host of the channel's target.
//
// For tools. gRPC reads the files each second; new connections use their present contents. While
// the files do not fit together, no new connection can be made; open connections stay.

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(const PeerTls& tls);

// PeerCredentials: the same of a set of TlsFiles, so that files that cannot replace the former ones
// do not reach gRPC: the set in force is copied to files in memory, which gRPC reads each second.
//
// It must outlive the channels.
//
// Threads: one calls Refresh, any channel().

class PeerCredentials {
 public:
  explicit PeerCredentials(std::shared_ptr<TlsFiles> files);

  // For any number of channels.
  const std::shared_ptr<grpc::ChannelCredentials>& channel() const { return channel_; }

  // Gives new connections the set that is in force now, about two seconds later. Call it each
  // second.
  void Refresh();

 private:
  const std::shared_ptr<TlsFiles> files_;
  uint64_t version_;  // the version of the set in the files in memory
  MemoryFile ca_;
  MemoryFile cert_;
  MemoryFile key_;
  const std::shared_ptr<grpc::ChannelCredentials> channel_;
};

// gRPC server credentials of a TlsFiles, and the names of a gRPC client.
//
// gRPC asks for the set in force at each handshake (its "certificate config fetcher"), so gRPC and
// HTTP ports change over together. The FileWatcherCertificateProvider of gRPC is not used: it would
// put a certificate without its key in force as well, and then refuse every handshake.

// For one port. The credentials must outlive the gRPC server.
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(std::shared_ptr<TlsFiles> tls);

// The same names of the verified client certificate of a call. `tls` null: none.
std::vector<std::string> ClientNames(const grpc::AuthContext& caller, TlsFiles* tls);

}  // namespace escapement

#endif  // COMMON_TLS_CREDENTIALS_GRPC_H_
