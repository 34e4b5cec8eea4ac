#include "common/auth/testing/test_issuer.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace escapement::testing {
namespace {

std::string BytesOf(const BIGNUM* number, int bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  CHECK_EQ(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()), bytes), bytes);
  return text;
}

// A parameter of the key in base64url; with `bytes` 0 as short as possible.
std::string Parameter(EVP_PKEY* key, const char* name, int bytes = 0) {
  BIGNUM* number = nullptr;
  CHECK(EVP_PKEY_get_bn_param(key, name, &number) == 1) << name;
  const std::string text = BytesOf(number, bytes == 0 ? BN_num_bytes(number) : bytes);
  BN_free(number);
  return absl::WebSafeBase64Escape(text);
}

}  // namespace

SigningKey SigningKey::Rsa(const std::string& kid, unsigned bits) {
  SigningKey made;
  made.kid_ = kid;
  made.key_ = {EVP_RSA_gen(bits), EVP_PKEY_free};
  CHECK(made.key_ != nullptr);
  return made;
}

SigningKey SigningKey::Ec(const std::string& kid, const char* curve) {
  SigningKey made;
  made.kid_ = kid;
  made.key_ = {EVP_EC_gen(curve), EVP_PKEY_free};
  CHECK(made.key_ != nullptr);
  return made;
}

std::string SigningKey::algorithm() const {
  return EVP_PKEY_is_a(key_.get(), "RSA") == 1 ? "RS256" : "ES256";
}

nlohmann::json SigningKey::Jwk() const {
  nlohmann::json jwk = {{"use", "sig"}};
  if (!kid_.empty()) jwk["kid"] = kid_;
  if (algorithm() == "RS256") {
    jwk["kty"] = "RSA";
    jwk["n"] = Parameter(key_.get(), OSSL_PKEY_PARAM_RSA_N);
    jwk["e"] = Parameter(key_.get(), OSSL_PKEY_PARAM_RSA_E);
  } else {
    const int bytes = (EVP_PKEY_get_bits(key_.get()) + 7) / 8;
    jwk["kty"] = "EC";
    jwk["crv"] = absl::StrCat("P-", EVP_PKEY_get_bits(key_.get()));
    jwk["x"] = Parameter(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X, bytes);
    jwk["y"] = Parameter(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y, bytes);
  }
  return jwk;
}

std::string SigningKey::Sign(const std::string& signed_bytes) const {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const auto* data = reinterpret_cast<const unsigned char*>(signed_bytes.data());
  size_t size = 0;
  CHECK(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key_.get()) == 1);
  CHECK(EVP_DigestSign(context, nullptr, &size, data, signed_bytes.size()) == 1);
  std::string signature(size, '\0');
  CHECK(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size, data,
                       signed_bytes.size()) == 1);
  signature.resize(size);
  EVP_MD_CTX_free(context);
  if (algorithm() == "ES256") {
    const auto* der = reinterpret_cast<const unsigned char*>(signature.data());
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(size));
    const int half = (EVP_PKEY_get_bits(key_.get()) + 7) / 8;
    signature =
        absl::StrCat(BytesOf(ECDSA_SIG_get0_r(pair), half), BytesOf(ECDSA_SIG_get0_s(pair), half));
    ECDSA_SIG_free(pair);
  }
  return absl::WebSafeBase64Escape(signature);
}

std::string KeySet(const std::vector<SigningKey>& keys) {
  nlohmann::json set = {{"keys", nlohmann::json::array()}};
  for (const SigningKey& key : keys) set["keys"].push_back(key.Jwk());
  return set.dump();
}

std::string Encoded(const nlohmann::json& value) { return absl::WebSafeBase64Escape(value.dump()); }

std::string SignedToken(const SigningKey& key, const nlohmann::json& header,
                        const nlohmann::json& claims) {
  const std::string signed_bytes = absl::StrCat(Encoded(header), ".", Encoded(claims));
  return absl::StrCat(signed_bytes, ".", key.Sign(signed_bytes));
}

std::string TokenBy(const SigningKey& key, const nlohmann::json& claims) {
  return SignedToken(key, {{"alg", key.algorithm()}, {"kid", key.kid()}}, claims);
}

}  // namespace escapement::testing
