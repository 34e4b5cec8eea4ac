// Tokens as consumers see them: a handle that names the right of one event to be out, and that
// nobody can make up.
//
// base64url (no padding) of: format 1 (u8), policy shard (u16), policy uid (16 bytes), epoch (u64),
// number (u64), index (u64), then the first 16 bytes of HMAC-SHA-256 (RFC 2104, FIPS 180-4) over
// all before it under the platform's key: 59 bytes, 79 characters. It is bound to the grant's
// generation (epoch, number): the same event granted again has another one.
//
// The key: 32 random bytes in `meta` under kTokenKeyKey, made by the first process that needs it
// (put if absent) and never changed.
//
// Threads: a TokenMint is immutable; any thread.

#ifndef COMMON_TOKENS_TOKEN_HANDLE_H_
#define COMMON_TOKENS_TOKEN_HANDLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "common/storage/grant_table.h"

namespace escapement {

struct TokenName {
  GrantId grant;
  uint64_t index = 0;

  friend bool operator==(const TokenName&, const TokenName&) = default;
};

inline constexpr absl::string_view kTokenKeyKey = "token_key";
inline constexpr size_t kTokenKeyBytes = 32;
inline constexpr size_t kTokenChars = 79;

class TokenMint {
 public:
  // `key` has kTokenKeyBytes bytes.
  explicit TokenMint(absl::string_view key);
  ~TokenMint();

  std::string Handle(const TokenName& token) const;
  // nullopt unless it was made under this key (compared in constant time).
  std::optional<TokenName> Read(absl::string_view handle) const;

  // HMAC-SHA-256 of `message` under the key, 32 bytes: for tests against others' vectors. A key
  // shorter than kTokenKeyBytes is as one filled up with zeros, which is HMAC's rule too.
  std::string Mac(absl::string_view message) const;

 private:
  struct Prepared;  // the key, with its two blocks hashed
  std::unique_ptr<const Prepared> prepared_;
};

// Reads the key, or puts `fresh_key` (kTokenKeyBytes bytes) where there is none, then calls `done`
// on `executor`; tries until it has it. FreshTokenKey makes one, in simulation the world's random
// does.
void LoadTokenMint(kv::KvClient& client, std::shared_ptr<Executor> executor, std::string fresh_key,
                   absl::AnyInvocable<void(std::shared_ptr<const TokenMint>)> done);

// 32 bytes of the machine's randomness (OpenSSL RAND_bytes).
std::string FreshTokenKey();

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_HANDLE_H_
