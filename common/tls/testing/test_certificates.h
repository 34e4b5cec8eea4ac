// Certificates for tests, made in memory.

#ifndef COMMON_TLS_TESTING_TEST_CERTIFICATES_H_
#define COMMON_TLS_TESTING_TEST_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY
struct x509_st;      // OpenSSL's X509

namespace escapement::testing {

// PEM texts.
struct Identity {
  std::string cert;
  std::string key;
};

// The files of one.
struct IdentityFiles {
  std::string cert;
  std::string key;
};

// From now. The default is valid.
struct TestValidity {
  absl::Duration begins = -absl::Hours(1);
  absl::Duration ends = absl::Hours(24);
};
inline constexpr TestValidity kExpired = {.begins = -absl::Hours(2), .ends = -absl::Hours(1)};

// An authority with a key of its own.
class TestCa {
 public:
  explicit TestCa(TestValidity validity = {});
  ~TestCa();

  const std::string& pem() const { return pem_; }
  // A certificate for servers and clients. `names` as in openssl's configuration.
  Identity Issue(int serial, const std::string& names = kServerNames,
                 TestValidity validity = {}) const;

  static constexpr char kServerNames[] = "DNS:localhost,IP:127.0.0.1";

 private:
  evp_pkey_st* key_;
  x509_st* cert_;
  std::string pem_;
};

// Replaces a file in one step.
void WriteFile(const std::string& path, const std::string& text);
// Writes `folder`/`name`.pem and `folder`/`name`.key.
IdentityFiles WriteIdentity(const Identity& identity, const std::string& folder,
                            const std::string& name);

}  // namespace escapement::testing

#endif  // COMMON_TLS_TESTING_TEST_CERTIFICATES_H_
