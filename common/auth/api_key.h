// API keys as their owners see them: esc_<id>_<secret>.
//
// <id> has 16 lower-case hex digits and names the key. <secret> is 64 lower-case hex digits, 256
// random bits of OpenSSL. The platform keeps the SHA-256 of the secret's text alone.
//
// Threads: pure functions, except NewApiKey, which asks the machine for random bits.

#ifndef COMMON_AUTH_API_KEY_H_
#define COMMON_AUTH_API_KEY_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement::auth {

inline constexpr absl::string_view kApiKeyPrefix = "esc_";

struct ApiKeyParts {
  std::string id;
  std::string secret;

  std::string ToString() const;
};

// Not for simulated code: the bits must not be predictable.
ApiKeyParts NewApiKey();

// nullopt if the text has another form.
std::optional<ApiKeyParts> ParseApiKey(absl::string_view text);

// 32 bytes.
std::string HashApiKeySecret(absl::string_view secret);

// Takes constant time for hashes of the same length.
bool ApiKeySecretMatches(absl::string_view secret, absl::string_view hash);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_API_KEY_H_
