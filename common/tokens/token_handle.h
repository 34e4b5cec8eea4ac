// Tokens as consumers see them: a handle that names the right of one event to be out, and that
// cannot be forged.
//
// A handle has 59 bytes. They are format 1 (u8), policy shard (u16), policy uid (16 bytes), epoch
// (u64), number (u64) and index (u64). Then come the first 16 bytes of the HMAC-SHA-256 (RFC 2104,
// FIPS 180-4) of these bytes under the platform's key. It is written as 79 characters of base64url
// without padding. A handle is bound to the grant's generation (epoch, number): if the same event
// is granted again, it has another handle.
//
// The key is 32 random bytes in `meta` under kTokenKeyKey. The first process that needs it makes it
// (put if absent), and it never changes.
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
  // `key` must have kTokenKeyBytes bytes.
  explicit TokenMint(absl::string_view key);
  ~TokenMint();

  std::string Handle(const TokenName& token) const;
  // nullopt unless the handle was made with this key. The comparison takes constant time.
  std::optional<TokenName> Read(absl::string_view handle) const;

  // HMAC-SHA-256 of `message` under the key, 32 bytes; for tests with published vectors. A key
  // shorter than kTokenKeyBytes is filled up with zeros, as HMAC does.
  std::string Mac(absl::string_view message) const;

 private:
  struct Prepared;  // the key, with its two blocks hashed
  std::unique_ptr<const Prepared> prepared_;
};

// Reads the key, or puts `fresh_key` (kTokenKeyBytes bytes) if there is none. Repeats that until it
// has a key, then calls `done` on `executor`. FreshTokenKey makes a key; in the simulation the
// world's random numbers do.
void LoadTokenMint(kv::KvClient& client, std::shared_ptr<Executor> executor, std::string fresh_key,
                   absl::AnyInvocable<void(std::shared_ptr<const TokenMint>)> done);

// 32 random bytes of the machine (OpenSSL RAND_bytes).
std::string FreshTokenKey();

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_HANDLE_H_
