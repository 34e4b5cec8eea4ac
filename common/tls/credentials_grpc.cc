#include "common/tls/credentials_grpc.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
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

namespace {

class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(std::shared_ptr<ServerTls> tls) : tls_(std::move(tls)) {
    grpc_ssl_server_credentials_options* options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            tls_->AsksForClientCertificates() ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                              : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            [](void* self, grpc_ssl_server_certificate_config** config) {
              return static_cast<ReloadingCredentials*>(self)->Fetch(config);
            },
            this);
    // Takes `options`. gRPC's least version is TLS 1.2.
    credentials_ = grpc_ssl_server_credentials_create_with_options(options);
  }
  ~ReloadingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    const auto loaded = tls_->Current();
    if (given_.exchange(loaded->version) == loaded->version)
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const auto& [cert, key, client_ca] = loaded->contents;
    const grpc_ssl_pem_key_cert_pair pair = {key.c_str(), cert.c_str()};
    // gRPC needs authorities even if it asks for no client certificate; it does not use them then.
    *config = grpc_ssl_server_certificate_config_create(
        client_ca.empty() ? cert.c_str() : client_ca.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<ServerTls> tls_;
  std::atomic<uint64_t> given_{0};  // the version that gRPC has
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(std::shared_ptr<ServerTls> tls) {
  return std::make_shared<ReloadingCredentials>(std::move(tls));
}

std::vector<std::string> ClientNames(const grpc::AuthContext& caller) {
  std::vector<std::string> names;
  for (const auto& [property, kind] : {std::pair(GRPC_PEER_DNS_PROPERTY_NAME, "DNS:"),
                                       std::pair(GRPC_PEER_URI_PROPERTY_NAME, "URI:"),
                                       std::pair(GRPC_PEER_EMAIL_PROPERTY_NAME, "email:"),
                                       std::pair(GRPC_PEER_IP_PROPERTY_NAME, "IP:")}) {
    for (const grpc::string_ref& name : caller.FindPropertyValues(property))
      names.push_back(absl::StrCat(kind, absl::string_view(name.data(), name.size())));
  }
  return names;
}

}  // namespace escapement
