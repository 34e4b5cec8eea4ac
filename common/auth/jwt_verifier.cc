#include "common/auth/jwt_verifier.h"

#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/auth/jwks.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"

namespace escapement::auth {
namespace {

constexpr size_t kEs256SignatureBytes = 64;        // r and s
constexpr double kLatestSecond = 253'402'300'799;  // the last of the year 9999

absl::Status Malformed(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_MALFORMED", message);
}
absl::Status Invalid(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_INVALID", message);
}
absl::Status Expired() {
  return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_EXPIRED",
                   "the token is expired");
}

// A NumericDate. nullopt: it has another form.
std::optional<absl::Time> TimeIn(const nlohmann::json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  if (!(seconds >= 0 && seconds <= kLatestSecond)) return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

bool NamesAudience(const nlohmann::json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (!found->is_array()) return found->is_string() && *found == audience;
  return std::all_of(found->begin(), found->end(), [](const auto& a) { return a.is_string(); }) &&
         std::find(found->begin(), found->end(), audience) != found->end();
}

// The DER form that OpenSSL verifies; empty if there is no memory.
std::string DerOfEs256(const std::string& signature) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(signature.data());
  constexpr int kHalf = kEs256SignatureBytes / 2;
  const std::unique_ptr<ECDSA_SIG, void (*)(ECDSA_SIG*)> pair(ECDSA_SIG_new(), ECDSA_SIG_free);
  BIGNUM* r = BN_bin2bn(bytes, kHalf, nullptr);
  BIGNUM* s = BN_bin2bn(bytes + kHalf, kHalf, nullptr);
  if (pair == nullptr || r == nullptr || s == nullptr || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return {};
  }
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(pair.get(), &der);
  if (size <= 0) return {};
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return text;
}

bool IsSignedBy(EVP_PKEY* key, const UnverifiedJwt& token) {
  std::string signature = token.signature;
  if (token.algorithm == JwtAlgorithm::kEs256) {
    if (signature.size() != kEs256SignatureBytes) return false;
    signature = DerOfEs256(signature);
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const bool good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(),
                       reinterpret_cast<const unsigned char*>(token.signed_bytes.data()),
                       token.signed_bytes.size()) == 1;
  ERR_clear_error();  // a TLS connection of this thread must not find our errors
  return good;
}

absl::Status ReadHeader(const nlohmann::json& header, UnverifiedJwt& token) {
  const std::string* algorithm = TextIn(header, "alg");
  if (algorithm != nullptr && *algorithm == "RS256") {
    token.algorithm = JwtAlgorithm::kRs256;
  } else if (algorithm != nullptr && *algorithm == "ES256") {
    token.algorithm = JwtAlgorithm::kEs256;
  } else {
    return Malformed("the token's algorithm must be RS256 or ES256");
  }
  // `b64` changes what is signed, and is allowed only together with `crit`.
  if (header.contains("crit") || header.contains("b64"))
    return Malformed("the token needs an extension that is not supported");
  if (header.contains("kid")) {
    const std::string* kid = TextIn(header, "kid");
    if (kid == nullptr || kid->empty() || kid->size() > kJwkIdBytesMax)
      return Malformed("the token's kid must be a string of 1 to 256 bytes");
    token.kid = *kid;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UnverifiedJwt> ParseJwt(absl::string_view token) {
  if (token.size() > kJwtBytesMax) return Malformed("the token has more than 8 KiB");
  const std::vector<absl::string_view> parts = absl::StrSplit(token, absl::MaxSplits('.', 3));
  if (parts.size() != 3) return Malformed("the credential is neither an API key nor a token");
  const auto header_text = DecodeBase64Url(parts[0]);
  const auto claims_text = DecodeBase64Url(parts[1]);
  auto signature = DecodeBase64Url(parts[2]);
  if (!header_text.has_value() || !claims_text.has_value() || !signature.has_value())
    return Malformed("the token's parts must be base64url without padding");
  const auto header = ParseJoseObject(*header_text);
  auto claims = ParseJoseObject(*claims_text);
  if (!header.has_value() || !claims.has_value())
    return Malformed("the token's header and claims must be JSON objects");
  UnverifiedJwt parsed;
  RETURN_IF_ERROR(ReadHeader(*header, parsed));
  const std::string* issuer = TextIn(*claims, "iss");
  if (issuer == nullptr) return Malformed("the token names no issuer");
  parsed.issuer = *issuer;
  parsed.signed_bytes = std::string(token.substr(0, parts[0].size() + 1 + parts[1].size()));
  parsed.signature = *std::move(signature);
  parsed.claims = *std::move(claims);
  return parsed;
}

absl::Status VerifyJwtSignature(const UnverifiedJwt& token, const Jwks& keys) {
  const Jwk* const key = keys.Find(token.kid, token.algorithm);
  if (key == nullptr || !IsSignedBy(key->key.get(), token))
    return Invalid("the token is not signed by a key of its issuer");
  return absl::OkStatus();
}

absl::Status VerifyJwtClaims(const UnverifiedJwt& token, const JwtExpectation& expected,
                             absl::Time now) {
  if (token.issuer != expected.issuer) return Invalid("the token is from another issuer");
  if (!NamesAudience(token.claims, expected.audience))
    return Invalid("the token is for another audience");
  const auto expiry = TimeIn(token.claims, "exp");
  if (!expiry.has_value()) return Invalid("the token has no valid expiry");
  if (*expiry <= now) return Expired();
  for (const char* name : {"nbf", "iat"}) {
    if (!token.claims.contains(name)) continue;
    const auto time = TimeIn(token.claims, name);
    if (!time.has_value()) return Invalid("a time of the token is not valid");
    if (*time > now + kJwtLeeway) return Invalid("the token is not valid yet");
  }
  const std::string* subject = TextIn(token.claims, "sub");
  if (subject == nullptr || subject->empty() || subject->size() > kJwtSubjectBytesMax ||
      HasControlCharacters(*subject)) {
    return Invalid("the token's subject must be a string of 1 to 256 printable bytes");
  }
  return absl::OkStatus();
}

absl::Time ExpiryOf(const nlohmann::json& claims) {
  return TimeIn(claims, "exp").value_or(absl::InfinitePast());
}

absl::Time IssueTimeOf(const nlohmann::json& claims) {
  return TimeIn(claims, "iat").value_or(absl::InfinitePast());
}

}  // namespace escapement::auth
