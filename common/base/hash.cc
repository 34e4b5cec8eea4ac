#include "common/base/hash.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include "common/base/check.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message_lite.h"
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

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(mac.data()), nullptr) != nullptr);
  return mac;
}

uint64_t StableHash64(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Uid StableHash128(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return Uid::FromHalves(hash.high64, hash.low64);
}

std::string SerializeDeterministically(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

}  // namespace escapement
