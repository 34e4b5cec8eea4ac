// The texts of JSON Web Tokens and JSON Web Keys, read strictly: each value has one form, so no
// other reader can understand a token differently.
//
// Pure functions.

#ifndef COMMON_AUTH_JWKS_H_
#define COMMON_AUTH_JWKS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace escapement::auth {

// Objects and arrays within each other.
inline constexpr size_t kJoseDepthMax = 16;

// base64url as RFC 7515 has it: no padding, no other characters, unused bits zero. nullopt for
// other texts.
std::optional<std::string> DecodeBase64Url(absl::string_view text);

// A JSON object in UTF-8. nullopt: the text is something else, an object has a name twice, or
// values are nested deeper than kJoseDepthMax.
std::optional<nlohmann::json> ParseJoseObject(absl::string_view text);

// The string that the object has under this name; null if there is none.
const std::string* TextIn(const nlohmann::json& object, const char* name);

// Jwks: the public keys of an issuer of tokens, from a JSON Web Key Set (RFC 7517).
//
// A set may have keys for other purposes. Only two kinds are kept: RSA of 2048 to 8192 bits, for
// RS256, and EC P-256, for ES256. Other keys and malformed keys are skipped, as the RFC asks.
//
// Threads: immutable.

inline constexpr size_t kJwksBytesMax = 1 << 20;
inline constexpr size_t kJwksKeysMax = 100;  // also counts the skipped keys
inline constexpr size_t kJwkIdBytesMax = 256;

enum class JwtAlgorithm { kRs256, kEs256 };

struct Jwk {
  std::string kid;  // empty: the key has none
  JwtAlgorithm algorithm;
  std::shared_ptr<evp_pkey_st> key;
};

class Jwks {
 public:
  // INVALID_ARGUMENT: the document is not a key set, or is above a bound. A set without usable keys
  // is valid: its issuer has withdrawn all of them.
  static absl::StatusOr<Jwks> Parse(absl::string_view document);

  const std::vector<Jwk>& keys() const { return keys_; }

  // The one key for this algorithm that has this id, or, if `kid` is empty, the one key for this
  // algorithm. Null: there is none, or more than one.
  const Jwk* Find(absl::string_view kid, JwtAlgorithm algorithm) const;

 private:
  std::vector<Jwk> keys_;
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JWKS_H_
