#include "common/tls/server_tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/bounded_file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with the certificate of this process and its chain; the ports use TLS if it is "
          "set");
ABSL_FLAG(std::string, tls_key, "", "PEM file with the key of --tls_cert, without a password");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with the authorities whose client certificates are accepted; clients without a "
          "certificate may still connect; empty = client certificates are not asked for");
ABSL_FLAG(std::string, peer_ca, "",
          "PEM file with the authorities of the servers that this process calls; if set, channels "
          "to other processes of the platform use TLS and present --tls_cert");

namespace escapement {

namespace {

constexpr absl::Duration kReadEvery = absl::Seconds(1);

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::StatusOr<ServerTlsContents> ReadFiles(const ServerTlsFiles& files) {
  ServerTlsContents contents;
  RETURN_IF_ERROR(ReadPemFile(files.cert, &contents.cert));
  RETURN_IF_ERROR(ReadPemFile(files.key, &contents.key));
  if (!files.client_ca.empty()) RETURN_IF_ERROR(ReadPemFile(files.client_ca, &contents.client_ca));
  return contents;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> NewContext(const ServerTlsFiles& files,
                                                    const ServerTlsContents& contents) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL has no TLS server");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // An idle connection keeps no buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  RETURN_IF_ERROR(UseIdentity({files.cert, contents.cert}, {files.key, contents.key}, *context));
  if (!files.client_ca.empty()) {
    RETURN_IF_ERROR(TrustCa({files.client_ca, contents.client_ca}, *context));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

}  // namespace

ServerTls::ServerTls(ServerTlsFiles files, Clock clock)
    : files_(std::move(files)), clock_(std::move(clock)) {}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Load(ServerTlsFiles files) {
  return Load(std::move(files), MonotonicNow);
}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Load(ServerTlsFiles files, Clock clock) {
  std::shared_ptr<ServerTls> tls(new ServerTls(std::move(files), std::move(clock)));
  absl::MutexLock lock(&tls->mutex_);
  tls->read_at_ = tls->clock_();
  RETURN_IF_ERROR(tls->Reload());
  return tls;
}

std::shared_ptr<const ServerTls::Loaded> ServerTls::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_();
  if (now - read_at_ < kReadEvery) return loaded_;
  read_at_ = now;
  const uint64_t before = loaded_->version;
  if (const absl::Status status = Reload(); !status.ok()) {
    Log(LogLevel::kWarning, "tls", "changed files are not usable; the former ones stay in force",
        {{"error", status.message()}});
  } else if (loaded_->version != before) {
    Log(LogLevel::kInfo, "tls", "changed files are in force", {{"cert", files_.cert}});
  }
  return loaded_;
}

// An error that it has returned before is OK until the files change again.
absl::Status ServerTls::Reload() {
  auto contents = ReadFiles(files_);
  if (!contents.ok()) {
    if (read_error_ == contents.status().message()) return absl::OkStatus();
    read_error_ = std::string(contents.status().message());
    return contents.status();
  }
  if (read_error_.empty() && *contents == seen_) return absl::OkStatus();
  read_error_.clear();
  seen_ = *contents;
  if (loaded_ != nullptr && *contents == loaded_->contents) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto context, NewContext(files_, *contents));
  loaded_ = std::make_shared<const Loaded>(
      Loaded{.version = loaded_ == nullptr ? 1 : loaded_->version + 1,
             .contents = *std::move(contents),
             .context = std::move(context)});
  return absl::OkStatus();
}

absl::Status CheckPeerTls(const PeerTls& tls) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL has no TLS client");
  std::string ca;
  RETURN_IF_ERROR(ReadPemFile(tls.ca, &ca));
  RETURN_IF_ERROR(TrustCa({tls.ca, ca}, *context));
  if (tls.cert.empty()) return absl::OkStatus();
  std::string cert;
  std::string key;
  RETURN_IF_ERROR(ReadPemFile(tls.cert, &cert));
  RETURN_IF_ERROR(ReadPemFile(tls.key, &key));
  return UseIdentity({tls.cert, cert}, {tls.key, key}, *context);
}

namespace {

ServerTlsFiles FilesFromFlags() {
  return {.cert = absl::GetFlag(FLAGS_tls_cert),
          .key = absl::GetFlag(FLAGS_tls_key),
          .client_ca = absl::GetFlag(FLAGS_tls_client_ca)};
}

// The flag of the file with which the sentence begins.
absl::string_view FlagOf(const absl::Status& error, const ServerTlsFiles& files) {
  const auto names = [&](const std::string& path) {
    return absl::StartsWith(error.message(), absl::StrCat(path, ":"));
  };
  if (names(files.cert)) return "--tls_cert";
  return names(files.key) ? "--tls_key" : "--tls_client_ca";
}

}  // namespace

void ValidateTlsFlags(std::vector<std::string>& errors) {
  const ServerTlsFiles files = FilesFromFlags();
  if (files.cert.empty() != files.key.empty()) {
    errors.push_back(files.key.empty() ? "--tls_cert: needs --tls_key as well"
                                       : "--tls_key: needs --tls_cert as well");
    return;
  }
  if (files.cert.empty() && !files.client_ca.empty()) {
    errors.push_back("--tls_client_ca: needs --tls_cert and --tls_key as well");
  }
  if (!files.cert.empty()) {
    if (const auto tls = ServerTls::Load(files); !tls.ok()) {
      errors.push_back(absl::StrCat(FlagOf(tls.status(), files), ": ", tls.status().message()));
      return;
    }
  }
  if (const auto peer = PeerTlsFromFlags(); peer.has_value()) {
    if (const absl::Status status = CheckPeerTls(*peer); !status.ok())
      errors.push_back(absl::StrCat("--peer_ca: ", status.message()));
  }
}

bool ServesTls() { return !absl::GetFlag(FLAGS_tls_cert).empty(); }

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTlsFromFlags() {
  if (!ServesTls()) return std::shared_ptr<ServerTls>();
  return ServerTls::Load(FilesFromFlags());
}

std::optional<PeerTls> PeerTlsFromFlags() {
  if (absl::GetFlag(FLAGS_peer_ca).empty()) return std::nullopt;
  return PeerTls{.ca = absl::GetFlag(FLAGS_peer_ca),
                 .cert = absl::GetFlag(FLAGS_tls_cert),
                 .key = absl::GetFlag(FLAGS_tls_key)};
}

namespace {

constexpr size_t kFileBytesMax = 1 << 20;

struct Freed {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using BioPtr = std::unique_ptr<BIO, Freed>;
using CertificatePtr = std::unique_ptr<X509, Freed>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed>;

BioPtr Reader(const Pem& pem) {
  return BioPtr(BIO_new_mem_buf(pem.text.data(), static_cast<int>(pem.text.size())));
}

// Otherwise OpenSSL would ask at the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Status Bad(const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Takes the errors that tell of the end of the file, so that they do not confuse later calls.
bool ReadToTheEnd() {
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return at_end;
}

}  // namespace

absl::Status ReadPemFile(const std::string& path, std::string* text) {
  absl::StatusOr<std::string> read = ReadBoundedFile(path, kFileBytesMax);
  if (absl::IsInvalidArgument(read.status())) return Bad(path, "is larger than 1 MiB");
  if (!read.ok()) return Bad(path, "cannot be read");
  if (read->empty()) return Bad(path, "is empty");
  *text = *std::move(read);
  return absl::OkStatus();
}

absl::Status UseIdentity(Pem cert, Pem key, ssl_ctx_st& context) {
  const BioPtr cert_reader = Reader(cert);
  const CertificatePtr leaf(PEM_read_bio_X509(cert_reader.get(), nullptr, NoPassword, nullptr));
  if (leaf == nullptr) return Bad(cert.path, "has no certificate in PEM");
  if (SSL_CTX_use_certificate(&context, leaf.get()) != 1)
    return Bad(cert.path, "has a certificate that cannot be used (is its key too short?)");
  while (X509* further = PEM_read_bio_X509(cert_reader.get(), nullptr, NoPassword, nullptr)) {
    if (SSL_CTX_add0_chain_cert(&context, further) != 1) {
      X509_free(further);
      return Bad(cert.path, "has a chain that cannot be used");
    }
  }
  if (!ReadToTheEnd()) return Bad(cert.path, "has a broken certificate");
  const BioPtr key_reader = Reader(key);
  const KeyPtr private_key(PEM_read_bio_PrivateKey(key_reader.get(), nullptr, NoPassword, nullptr));
  if (private_key == nullptr) return Bad(key.path, "has no private key in PEM without a password");
  if (X509_check_private_key(leaf.get(), private_key.get()) != 1)
    return Bad(key.path, absl::StrCat("is not the key of the certificate in ", cert.path));
  if (SSL_CTX_use_PrivateKey(&context, private_key.get()) != 1)
    return Bad(key.path, "has a key that cannot be used");
  return absl::OkStatus();
}

absl::Status TrustCa(Pem ca, ssl_ctx_st& context) {
  const BioPtr reader = Reader(ca);
  int certificates = 0;
  while (true) {
    const CertificatePtr one(PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr));
    if (one == nullptr) break;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), one.get());
    // A server names these authorities to its clients, which choose a certificate by them.
    SSL_CTX_add_client_CA(&context, one.get());
    ++certificates;
  }
  const bool whole = ReadToTheEnd();
  if (certificates == 0) return Bad(ca.path, "has no certificate in PEM");
  if (!whole) return Bad(ca.path, "has a broken certificate");
  return absl::OkStatus();
}

}  // namespace escapement
