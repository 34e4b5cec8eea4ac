#include "common/tls/credentials_grpc.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace escapement {

namespace {

void AppendText(absl::string_view kind, const ASN1_IA5STRING* text,
                std::vector<std::string>& names) {
  const absl::string_view value(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                static_cast<size_t>(ASN1_STRING_length(text)));
  // A NUL in the middle would let a name begin like another one.
  const bool printable = std::all_of(value.begin(), value.end(),
                                     [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (printable && !value.empty()) names.push_back(absl::StrCat(kind, value));
}

void AppendAddress(const ASN1_OCTET_STRING* address, std::vector<std::string>& names) {
  const int bytes = ASN1_STRING_length(address);
  if (bytes != 4 && bytes != 16) return;
  char text[INET6_ADDRSTRLEN];
  if (inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text,
                sizeof(text)) != nullptr)
    names.push_back(absl::StrCat("IP:", text));
}

}  // namespace

std::vector<std::string> SubjectAlternativeNames(const x509_st& certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) AppendText("DNS:", name->d.dNSName, names);
    if (name->type == GEN_URI) AppendText("URI:", name->d.uniformResourceIdentifier, names);
    if (name->type == GEN_EMAIL) AppendText("email:", name->d.rfc822Name, names);
    if (name->type == GEN_IPADD) AppendAddress(name->d.iPAddress, names);
  }
  return names;
}

namespace {

// The certificate of the peer, then those that it sent after it.
std::string ChainOf(const SSL& connection) {
  const std::unique_ptr<BIO, int (*)(BIO*)> pem(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(pem.get(), SSL_get0_peer_certificate(&connection));
  const STACK_OF(X509)* const sent = SSL_get_peer_cert_chain(&connection);
  for (int i = 0; i < sk_X509_num(sent); ++i) PEM_write_bio_X509(pem.get(), sk_X509_value(sent, i));
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(pem.get(), &text);
  return std::string(text, static_cast<size_t>(bytes));
}

}  // namespace

std::vector<std::string> VerifiedClientNames(const ssl_st& connection, TlsFiles& tls) {
  const X509* certificate = SSL_get0_peer_certificate(&connection);
  if (certificate == nullptr || SSL_get_verify_result(&connection) != X509_V_OK) return {};
  std::vector<std::string> names = SubjectAlternativeNames(*certificate);
  if (!tls.KnowsServices() || tls.MayBeService(ChainOf(connection)))
    names.push_back(kServiceAuthority);
  return names;
}

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

PeerCredentials::PeerCredentials(std::shared_ptr<TlsFiles> files)
    : files_(std::move(files)),
      version_(files_->Current()->version),
      ca_(files_->Current()->contents.ca),
      cert_(files_->Current()->contents.cert),
      key_(files_->Current()->contents.key),
      channel_(NewChannelCredentials(
          files_->paths().cert.empty()
              ? PeerTls{.ca = ca_.path()}
              : PeerTls{.ca = ca_.path(), .cert = cert_.path(), .key = key_.path()})) {}

void PeerCredentials::Refresh() {
  const auto loaded = files_->Current();
  if (version_ == loaded->version) return;
  const TlsContents& contents = loaded->contents;
  // gRPC sees that a file has changed while it reads the pair, and reads both again.
  if (ca_.Replace(contents.ca) && key_.Replace(contents.key) && cert_.Replace(contents.cert))
    version_ = loaded->version;
}

namespace {

class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(std::shared_ptr<TlsFiles> tls) : tls_(std::move(tls)) {
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
    const std::string& cert = loaded->contents.cert;
    const std::string authorities = loaded->client_authorities();
    const grpc_ssl_pem_key_cert_pair pair = {loaded->contents.key.c_str(), cert.c_str()};
    // gRPC needs authorities even if it asks for no client certificate; it does not use them then.
    *config = grpc_ssl_server_certificate_config_create(
        tls_->AsksForClientCertificates() ? authorities.c_str() : cert.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<TlsFiles> tls_;
  std::atomic<uint64_t> given_{0};  // the version that gRPC has
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(std::shared_ptr<TlsFiles> tls) {
  return std::make_shared<ReloadingCredentials>(std::move(tls));
}

std::vector<std::string> ClientNames(const grpc::AuthContext& caller, TlsFiles* tls) {
  std::vector<std::string> names;
  if (tls == nullptr) return names;
  for (const auto& [property, kind] : {std::pair(GRPC_PEER_DNS_PROPERTY_NAME, "DNS:"),
                                       std::pair(GRPC_PEER_URI_PROPERTY_NAME, "URI:"),
                                       std::pair(GRPC_PEER_EMAIL_PROPERTY_NAME, "email:"),
                                       std::pair(GRPC_PEER_IP_PROPERTY_NAME, "IP:")}) {
    for (const grpc::string_ref& name : caller.FindPropertyValues(property))
      names.push_back(absl::StrCat(kind, absl::string_view(name.data(), name.size())));
  }
  if (names.empty()) return names;
  std::string chain;
  if (tls->KnowsServices()) {
    for (const char* property :
         {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
      for (const grpc::string_ref& pem : caller.FindPropertyValues(property))
        chain.append(pem.data(), pem.size());
    }
  }
  if (!tls->KnowsServices() || tls->MayBeService(chain)) names.push_back(kServiceAuthority);
  return names;
}

}  // namespace escapement
