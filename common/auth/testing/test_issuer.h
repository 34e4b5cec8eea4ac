// An issuer of tokens for tests: keys made in memory, their key set, and tokens signed by them.

#ifndef COMMON_AUTH_TESTING_TEST_ISSUER_H_
#define COMMON_AUTH_TESTING_TEST_ISSUER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace escapement::testing {

class SigningKey {
 public:
  static SigningKey Rsa(const std::string& kid, unsigned bits = 2048);
  static SigningKey Ec(const std::string& kid, const char* curve = "P-256");

  // The public key as a JSON Web Key, without kid if that is empty.
  nlohmann::json Jwk() const;
  // RS256 or ES256, by the kind of the key.
  std::string algorithm() const;
  const std::string& kid() const { return kid_; }
  // The signature part of a token: base64url.
  std::string Sign(const std::string& signed_bytes) const;

 private:
  std::string kid_;
  std::shared_ptr<evp_pkey_st> key_;
};

std::string KeySet(const std::vector<SigningKey>& keys);

// base64url without padding of the value's text.
std::string Encoded(const nlohmann::json& value);

// A token with this header and these claims.
std::string SignedToken(const SigningKey& key, const nlohmann::json& header,
                        const nlohmann::json& claims);
// The header has the key's own algorithm and kid.
std::string TokenBy(const SigningKey& key, const nlohmann::json& claims);

}  // namespace escapement::testing

#endif  // COMMON_AUTH_TESTING_TEST_ISSUER_H_
