// SHA-256 of bytes that come piece by piece.
//
// Threads: one at a time.

#ifndef COMMON_BASE_HASH_H_
#define COMMON_BASE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace escapement {

inline constexpr size_t kSha256Bytes = 32;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(absl::string_view bytes);
  // The hash of all that was added, kSha256Bytes long. Add nothing more.
  std::string Finish();

 private:
  evp_md_ctx_st* const context_;
};

// HMAC-SHA256 (RFC 2104). A pure function.

// 32 bytes.
std::string HmacSha256(absl::string_view key, absl::string_view text);

// Hashes that are stored or sent. XXH3 gives the same value on every machine and in every version.

uint64_t StableHash64(absl::string_view bytes);

// XXH3-128, the high half first.
Uid StableHash128(absl::string_view bytes);

// Bytes of protobuf messages that can be compared and hashed. A pure function.

// Serializes so that equal messages have equal bytes.
std::string SerializeDeterministically(const google::protobuf::MessageLite& message);

}  // namespace escapement

#endif  // COMMON_BASE_HASH_H_
