#include "common/base/sha256.h"

#include "common/base/check.h"
#include "openssl/evp.h"

namespace escapement {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Add(absl::string_view bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::string hash(kSha256Bytes, '\0');
  CHECK(EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(hash.data()), nullptr) == 1);
  return hash;
}

}  // namespace escapement
