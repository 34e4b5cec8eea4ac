// Any bytes as the key set of an issuer.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/auth/jwks.h"
#include "common/auth/jwt_verifier.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

void CheckKeySet(absl::string_view input) {
  const auto keys = auth::Jwks::Parse(input);
  if (!keys.ok()) {
    Require(absl::IsInvalidArgument(keys.status()), "INVALID_ARGUMENT", input);
    return;
  }
  Require(keys->keys().size() <= auth::kJwksKeysMax, "the number of keys is bounded", input);
  for (const auth::Jwk& key : keys->keys()) {
    Require(key.key != nullptr, "a key is a key of OpenSSL", input);
    Require(key.kid.size() <= auth::kJwkIdBytesMax, "its id is bounded", input);
    const auth::Jwk* const found = keys->Find(key.kid, key.algorithm);
    Require(found == nullptr || found->kid == key.kid || key.kid.empty(), "it is found by its id",
            input);
    for (const auth::JwtAlgorithm algorithm :
         {auth::JwtAlgorithm::kRs256, auth::JwtAlgorithm::kEs256}) {
      for (const size_t size : {64, 256}) {
        auth::UnverifiedJwt token;
        token.algorithm = algorithm;
        token.kid = key.kid;
        token.signed_bytes = "a.b";
        token.signature = std::string(size, '\1');
        Require(!auth::VerifyJwtSignature(token, *keys).ok(), "no key accepts any signature",
                input);
      }
    }
  }
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckKeySet({reinterpret_cast<const char*>(data), size});
  return 0;
}
