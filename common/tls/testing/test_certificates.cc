#include "common/tls/testing/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "common/base/check.h"

namespace escapement::testing {
namespace {

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(bytes));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_X509(bio, certificate) == 1);
  return TextOf(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  CHECK(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return TextOf(bio);
}

X509* NewCertificate(EVP_PKEY* key, const char* name, int serial, TestValidity validity) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), absl::ToInt64Seconds(validity.begins));
  X509_gmtime_adj(X509_getm_notAfter(certificate), absl::ToInt64Seconds(validity.ends));
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return certificate;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  CHECK(extension != nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestCa::TestCa(TestValidity validity) : key_(EVP_EC_gen("P-256")) {
  // Authorities of one name would be taken for one another.
  static std::atomic<int> made = 0;
  const std::string name = "authority " + std::to_string(++made);
  cert_ = NewCertificate(key_, name.c_str(), 1, validity);
  X509_set_issuer_name(cert_, X509_get_subject_name(cert_));
  AddExtension(cert_, cert_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(cert_, cert_, NID_key_usage, "critical,keyCertSign");
  CHECK(X509_sign(cert_, key_, EVP_sha256()) > 0);
  pem_ = PemOf(cert_);
}

TestCa::~TestCa() {
  X509_free(cert_);
  EVP_PKEY_free(key_);
}

Identity TestCa::Issue(int serial, const std::string& names, TestValidity validity) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(key, "test", serial, validity);
  X509_set_issuer_name(certificate, X509_get_subject_name(cert_));
  AddExtension(certificate, cert_, NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(certificate, cert_, NID_subject_alt_name, names.c_str());
  CHECK(X509_sign(certificate, key_, EVP_sha256()) > 0);
  Identity identity{.cert = PemOf(certificate), .key = PemOf(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return identity;
}

void WriteFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  std::ofstream(draft, std::ios::trunc) << text;
  CHECK(std::rename(draft.c_str(), path.c_str()) == 0) << path;
}

IdentityFiles WriteIdentity(const Identity& identity, const std::string& folder,
                            const std::string& name) {
  IdentityFiles files{.cert = folder + "/" + name + ".pem", .key = folder + "/" + name + ".key"};
  WriteFile(files.cert, identity.cert);
  WriteFile(files.key, identity.key);
  return files;
}

}  // namespace escapement::testing
