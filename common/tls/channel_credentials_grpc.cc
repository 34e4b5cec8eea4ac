#include "common/tls/channel_credentials_grpc.h"

#include "grpcpp/grpcpp.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace escapement {
namespace {

constexpr unsigned int kRefreshSeconds = 1;

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(const PeerTls& tls) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          tls.key, tls.cert, tls.ca, kRefreshSeconds));
  options.watch_root_certs();
  if (!tls.cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace escapement
