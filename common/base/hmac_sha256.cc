#include "common/base/hmac_sha256.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "common/base/check.h"

namespace escapement {

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(mac.data()), nullptr) != nullptr);
  return mac;
}

}  // namespace escapement
