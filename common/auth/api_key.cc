#include "common/auth/api_key.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace escapement::auth {
namespace {

constexpr size_t kIdBytes = 8;
constexpr size_t kSecretBytes = 32;

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  CHECK_EQ(
      RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(random.size())),
      1);
  return absl::BytesToHexString(random);
}

bool IsHex(absl::string_view text, size_t bytes) {
  return text.size() == 2 * bytes && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string ApiKeyParts::ToString() const { return absl::StrCat(kApiKeyPrefix, id, "_", secret); }

ApiKeyParts NewApiKey() { return {RandomHex(kIdBytes), RandomHex(kSecretBytes)}; }

std::optional<ApiKeyParts> ParseApiKey(absl::string_view text) {
  if (!absl::StartsWith(text, kApiKeyPrefix)) return std::nullopt;
  text.remove_prefix(kApiKeyPrefix.size());
  const size_t underscore = text.find('_');
  if (underscore == absl::string_view::npos) return std::nullopt;
  const absl::string_view id = text.substr(0, underscore);
  const absl::string_view secret = text.substr(underscore + 1);
  if (!IsHex(id, kIdBytes) || !IsHex(secret, kSecretBytes)) return std::nullopt;
  return ApiKeyParts{std::string(id), std::string(secret)};
}

std::string HashApiKeySecret(absl::string_view secret) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

bool ApiKeySecretMatches(absl::string_view secret, absl::string_view hash) {
  const std::string own = HashApiKeySecret(secret);
  return own.size() == hash.size() && CRYPTO_memcmp(own.data(), hash.data(), own.size()) == 0;
}

}  // namespace escapement::auth
