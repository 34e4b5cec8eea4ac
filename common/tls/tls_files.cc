#include "common/tls/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
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
ABSL_FLAG(
    std::string, tls_service_ca, "",
    "PEM file with the authorities of the services' certificates: they are accepted, and only "
    "they can have the role service; empty = certificates of --tls_client_ca can have it");
ABSL_FLAG(std::string, peer_ca, "",
          "PEM file with the authorities of the servers that this process calls; if set, channels "
          "to other processes of the platform use TLS and present --tls_cert");

namespace escapement {

namespace {

constexpr absl::Duration kReadEvery = absl::Seconds(1);
constexpr size_t kServicesRememberedMax = 1024;

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::StatusOr<TlsContents> ReadFiles(const TlsPaths& paths) {
  TlsContents contents;
  for (const auto& [path, text] : {std::pair(&paths.cert, &contents.cert),
                                   {&paths.key, &contents.key},
                                   {&paths.ca, &contents.ca},
                                   {&paths.service_ca, &contents.service_ca}})
    if (!path->empty()) RETURN_IF_ERROR(ReadPemFile(*path, text));
  return contents;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> NewContext(const TlsPaths& paths,
                                                    const TlsContents& contents) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL has no TLS server");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // An idle connection keeps no buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  if (!paths.cert.empty())
    RETURN_IF_ERROR(UseIdentity({paths.cert, contents.cert}, {paths.key, contents.key}, *context));
  for (const Pem& ca : {Pem{paths.ca, contents.ca}, Pem{paths.service_ca, contents.service_ca}}) {
    if (ca.path.empty()) continue;
    RETURN_IF_ERROR(TrustCa(ca, *context));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

// Whether `next` may come after `former` now. A set that is not valid replaces only another one.
absl::Status CheckReplaces(const std::string& path, const Validity& next, const Validity& former,
                           absl::Time now) {
  if (next.Covers(now) || !former.Covers(now)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      next.ends <= now
          ? absl::StrCat(path, ": has expired at ",
                         absl::FormatTime(absl::RFC3339_sec, next.ends, absl::UTCTimeZone()))
          : absl::StrCat(path, ": is valid only from ",
                         absl::FormatTime(absl::RFC3339_sec, next.begins, absl::UTCTimeZone()),
                         " on"));
}

}  // namespace

TlsFiles::TlsFiles(TlsPaths paths, Clocks clocks)
    : paths_(std::move(paths)), clocks_(std::move(clocks)) {}

absl::StatusOr<std::shared_ptr<TlsFiles>> TlsFiles::Load(TlsPaths paths) {
  return Load(std::move(paths), {.monotonic = MonotonicNow, .wall = absl::Now});
}

absl::StatusOr<std::shared_ptr<TlsFiles>> TlsFiles::Load(TlsPaths paths, Clocks clocks) {
  std::shared_ptr<TlsFiles> tls(new TlsFiles(std::move(paths), std::move(clocks)));
  absl::MutexLock lock(&tls->mutex_);
  tls->read_at_ = tls->clocks_.monotonic();
  RETURN_IF_ERROR(tls->Reload());
  return tls;
}

std::shared_ptr<const TlsFiles::Loaded> TlsFiles::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clocks_.monotonic();
  if (now - read_at_ < kReadEvery) return loaded_;
  read_at_ = now;
  const uint64_t before = loaded_->version;
  if (const absl::Status status = Reload(); !status.ok()) {
    Log(LogLevel::kWarning, "tls", "changed files are not usable; the former ones stay in force",
        {{"error", status.message()}});
  } else if (loaded_->version != before) {
    Log(LogLevel::kInfo, "tls", "changed files are in force",
        {{"file", paths_.cert.empty() ? paths_.ca : paths_.cert}});
  }
  return loaded_;
}

std::string TlsFiles::Loaded::client_authorities() const {
  return absl::StrCat(contents.ca, "\n", contents.service_ca);
}

bool TlsFiles::MayBeService(const std::string& chain) {
  absl::MutexLock lock(&mutex_);
  if (loaded_->service_store == nullptr) return true;
  if (const auto known = services_.find(chain); known != services_.end()) return known->second;
  if (services_.size() >= kServicesRememberedMax) services_.clear();
  return services_[chain] = ComesFrom(*loaded_->service_store, chain);
}

std::string TlsFiles::Refusal() {
  absl::MutexLock lock(&mutex_);
  return refusal_;
}

absl::StatusOr<TlsFiles::Loaded> TlsFiles::Judge(TlsContents contents) {
  Loaded next;
  ASSIGN_OR_RETURN(next.context, NewContext(paths_, contents));
  if (!paths_.cert.empty()) {
    ASSIGN_OR_RETURN(next.cert, ValidityOfChain({paths_.cert, contents.cert}));
  }
  if (!paths_.ca.empty()) {
    ASSIGN_OR_RETURN(next.ca, ValidityOfAuthorities({paths_.ca, contents.ca}));
  }
  if (!paths_.service_ca.empty()) {
    const Pem services = {paths_.service_ca, contents.service_ca};
    ASSIGN_OR_RETURN(next.service_ca, ValidityOfAuthorities(services));
    ASSIGN_OR_RETURN(next.service_store, NewAuthorityStore(services));
    if (!paths_.ca.empty())
      RETURN_IF_ERROR(CheckApart({paths_.ca, contents.ca}, services, *next.service_store));
  }
  next.version = 1;
  if (loaded_ != nullptr) {
    const absl::Time now = clocks_.wall();
    RETURN_IF_ERROR(CheckReplaces(paths_.cert, next.cert, loaded_->cert, now));
    RETURN_IF_ERROR(CheckReplaces(paths_.ca, next.ca, loaded_->ca, now));
    RETURN_IF_ERROR(CheckReplaces(paths_.service_ca, next.service_ca, loaded_->service_ca, now));
    next.version = loaded_->version + 1;
  }
  next.contents = std::move(contents);
  return next;
}

// An error that it has returned before is OK until the files change again.
absl::Status TlsFiles::Reload() {
  auto contents = ReadFiles(paths_);
  absl::Status refused = contents.status();
  bool changed = false;
  if (contents.ok()) {
    changed = *contents != seen_;
    seen_ = *contents;
    if (loaded_ == nullptr || *contents != loaded_->contents) {
      auto next = Judge(*std::move(contents));
      refused = next.status();
      if (next.ok()) {
        loaded_ = std::make_shared<const Loaded>(*std::move(next));
        // Services that are connected stay services. Handshakes follow the new set.
        absl::erase_if(services_, [](const auto& answer) { return !answer.second; });
      }
    }
  }
  changed |= refusal_ != refused.message();
  refusal_ = std::string(refused.message());
  return changed ? refused : absl::OkStatus();
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

TlsPaths PathsFromFlags() {
  return {.cert = absl::GetFlag(FLAGS_tls_cert),
          .key = absl::GetFlag(FLAGS_tls_key),
          .ca = absl::GetFlag(FLAGS_tls_client_ca),
          .service_ca = absl::GetFlag(FLAGS_tls_service_ca)};
}

// The flag of the file with which the sentence begins.
absl::string_view FlagOf(const absl::Status& error, const TlsPaths& paths) {
  const auto names = [&](const std::string& path) {
    return absl::StartsWith(error.message(), absl::StrCat(path, ":"));
  };
  if (names(paths.cert)) return "--tls_cert";
  if (names(paths.key)) return "--tls_key";
  return names(paths.ca) ? "--tls_client_ca" : "--tls_service_ca";
}

}  // namespace

void ValidateTlsFlags(std::vector<std::string>& errors) {
  const TlsPaths paths = PathsFromFlags();
  if (paths.cert.empty() != paths.key.empty()) {
    errors.push_back(paths.key.empty() ? "--tls_cert: needs --tls_key as well"
                                       : "--tls_key: needs --tls_cert as well");
    return;
  }
  if (paths.cert.empty() && !paths.ca.empty()) {
    errors.push_back("--tls_client_ca: needs --tls_cert and --tls_key as well");
  }
  if (paths.cert.empty() && !paths.service_ca.empty()) {
    errors.push_back("--tls_service_ca: needs --tls_cert and --tls_key as well");
  }
  if (!paths.cert.empty()) {
    if (const auto tls = TlsFiles::Load(paths); !tls.ok()) {
      errors.push_back(absl::StrCat(FlagOf(tls.status(), paths), ": ", tls.status().message()));
      return;
    }
  }
  if (const auto peer = PeerTlsFromFlags(); !peer.ok())
    errors.push_back(absl::StrCat("--peer_ca: ", peer.status().message()));
}

bool ClientsMayPassForServices() {
  return !absl::GetFlag(FLAGS_tls_client_ca).empty() && absl::GetFlag(FLAGS_tls_service_ca).empty();
}

bool ServesTls() { return !absl::GetFlag(FLAGS_tls_cert).empty(); }

absl::StatusOr<std::shared_ptr<TlsFiles>> ServerTlsFromFlags() {
  if (!ServesTls()) return std::shared_ptr<TlsFiles>();
  return TlsFiles::Load(PathsFromFlags());
}

absl::StatusOr<std::shared_ptr<TlsFiles>> PeerTlsFromFlags() {
  TlsPaths paths = PathsFromFlags();
  paths.ca = absl::GetFlag(FLAGS_peer_ca);
  paths.service_ca.clear();
  if (paths.ca.empty()) return std::shared_ptr<TlsFiles>();
  return TlsFiles::Load(std::move(paths));
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

namespace {

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  ASN1_TIME_to_tm(time, &parts);
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::StatusOr<std::vector<Validity>> Validities(Pem pem) {
  const BioPtr reader = Reader(pem);
  std::vector<Validity> all;
  while (true) {
    const CertificatePtr one(PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr));
    if (one == nullptr) break;
    // RFC 5280, 4.1.2.5: the certificate is valid through notAfter, which has whole seconds.
    all.push_back({.begins = TimeOf(X509_get0_notBefore(one.get())),
                   .ends = TimeOf(X509_get0_notAfter(one.get())) + absl::Seconds(1)});
  }
  ERR_clear_error();
  if (all.empty()) return Bad(pem.path, "has no certificate in PEM");
  return all;
}

}  // namespace

absl::StatusOr<Validity> ValidityOfChain(Pem cert) {
  ASSIGN_OR_RETURN(const std::vector<Validity> all, Validities(cert));
  Validity chain = all.front();
  for (const Validity& one : all)
    chain = {.begins = std::max(chain.begins, one.begins), .ends = std::min(chain.ends, one.ends)};
  return chain;
}

absl::StatusOr<Validity> ValidityOfAuthorities(Pem ca) {
  ASSIGN_OR_RETURN(const std::vector<Validity> all, Validities(ca));
  Validity any = all.front();
  for (const Validity& one : all)
    any = {.begins = std::min(any.begins, one.begins), .ends = std::max(any.ends, one.ends)};
  return any;
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

namespace {

std::vector<CertificatePtr> Certificates(const std::string& text) {
  const std::string no_path;
  const BioPtr reader = Reader({no_path, text});
  std::vector<CertificatePtr> all;
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr))
    all.emplace_back(one);
  ERR_clear_error();
  return all;
}

bool Verifies(X509_STORE& store, X509* certificate, STACK_OF(X509) * between) {
  const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(X509_STORE_CTX_new(),
                                                                         X509_STORE_CTX_free);
  const bool verifies = X509_STORE_CTX_init(check.get(), &store, certificate, between) == 1 &&
                        X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  return verifies;
}

}  // namespace

absl::StatusOr<std::shared_ptr<x509_store_st>> NewAuthorityStore(Pem ca) {
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  if (store == nullptr) return absl::InternalError("OpenSSL has no store of authorities");
  // An authority below a root can be trusted without the root. Handshakes have checked the time.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME);
  for (const CertificatePtr& one : Certificates(ca.text))
    X509_STORE_add_cert(store.get(), one.get());
  ERR_clear_error();
  return store;
}

bool ComesFrom(x509_store_st& store, const std::string& chain) {
  const std::vector<CertificatePtr> certificates = Certificates(chain);
  if (certificates.empty()) return false;
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> between(
      sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  for (const CertificatePtr& one : certificates) sk_X509_push(between.get(), one.get());
  return Verifies(store, certificates.front().get(), between.get());
}

absl::Status CheckApart(Pem clients, Pem services, x509_store_st& store) {
  for (const CertificatePtr& one : Certificates(clients.text)) {
    if (Verifies(store, one.get(), nullptr)) {
      return Bad(clients.path, absl::StrCat("has an authority of ", services.path,
                                            " or one below it, whose clients could pass for "
                                            "services"));
    }
  }
  return absl::OkStatus();
}

}  // namespace escapement
