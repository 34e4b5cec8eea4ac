#include "common/tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_file.h"

namespace escapement {
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
