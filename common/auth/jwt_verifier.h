// Verifies JSON Web Tokens: compact JWS (RFC 7515) with RS256 or ES256, and the claims of RFC 7519.
//
// The algorithm comes from an allow-list of two, and the key must be of the algorithm's own kind.
// So "none", HMAC with a public key as the secret, and other confusions cannot arise. Keys inside
// the token (jwk, jku, x5c, x5u) are ignored. Extensions (crit) are refused.
//
// Errors are UNAUTHENTICATED with the reason CREDENTIAL_MALFORMED (not a token, or one of a kind
// that is never accepted), CREDENTIAL_INVALID (the signature or a claim is wrong) or
// CREDENTIAL_EXPIRED. They never quote the token.
//
// Pure functions.

#ifndef COMMON_AUTH_JWT_VERIFIER_H_
#define COMMON_AUTH_JWT_VERIFIER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/auth/jwks.h"
#include "nlohmann/json.hpp"

namespace escapement::auth {

inline constexpr size_t kJwtBytesMax = 8 << 10;
inline constexpr size_t kJwtSubjectBytesMax = 256;
// How far the clocks of issuers may be ahead of the store's. There is none for `exp`.
inline constexpr absl::Duration kJwtLeeway = absl::Seconds(60);

// A token before its verification.
struct UnverifiedJwt {
  JwtAlgorithm algorithm;
  std::string kid;           // empty: the token names no key
  std::string signed_bytes;  // header and payload, as they were sent
  std::string signature;
  nlohmann::json claims;  // an object
  std::string issuer;     // the claim `iss`
};

// CREDENTIAL_MALFORMED.
absl::StatusOr<UnverifiedJwt> ParseJwt(absl::string_view token);

// CREDENTIAL_INVALID: the set does not have exactly one key that fits, or the signature is not by
// that key.
absl::Status VerifyJwtSignature(const UnverifiedJwt& token, const Jwks& keys);

struct JwtExpectation {
  std::string issuer;
  std::string audience;
};

// Checks iss, aud, exp, nbf, iat and sub. CREDENTIAL_INVALID or CREDENTIAL_EXPIRED.
absl::Status VerifyJwtClaims(const UnverifiedJwt& token, const JwtExpectation& expected,
                             absl::Time now);

// The claim `exp`; InfinitePast if it is not valid.
absl::Time ExpiryOf(const nlohmann::json& claims);
// The claim `iat`; InfinitePast if there is none.
absl::Time IssueTimeOf(const nlohmann::json& claims);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JWT_VERIFIER_H_
