// SHA-256 of bytes that come piece by piece.
//
// Threads: one at a time.

#ifndef COMMON_BASE_SHA256_H_
#define COMMON_BASE_SHA256_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

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

}  // namespace escapement

#endif  // COMMON_BASE_SHA256_H_
