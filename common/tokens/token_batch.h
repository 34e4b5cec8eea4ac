// TokenMint: makes and reads the tokens that consumers see. TokenBatch: one request of
// TokenService, checked and read.

#ifndef COMMON_TOKENS_TOKEN_BATCH_H_
#define COMMON_TOKENS_TOKEN_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement {

struct TokenName {
  GrantId grant;
  uint64_t index = 0;

  friend bool operator==(const TokenName&, const TokenName&) = default;
};

inline constexpr absl::string_view kTokenKeyKey = "token_key";
inline constexpr size_t kTokenKeyBytes = 32;
inline constexpr size_t kTokenChars = 79;

// Tokens as consumers see them: a handle that names the right of one event to be out, and that
// cannot be forged.
//
// A handle has 59 bytes. They are format 1 (u8), cell (6 bits) and policy shard (10 bits), policy
// uid (16 bytes), epoch (u64), number (u64) and index (u64). Then come the first 16 bytes of the
// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of these bytes under the platform's key. It is written as 79
// characters of base64url without padding. A handle is bound to the grant's generation (epoch,
// number): if the same event is granted again, it has another handle.
//
// The key is 32 random bytes in `meta` under kTokenKeyKey. In cell 0 the first process that needs
// it makes it (put if absent), and it never changes. The other cells have a copy of it
// (docs/design/cells.md).
//
// Threads: a TokenMint is immutable; any thread.
class TokenMint {
 public:
  // `key` must have kTokenKeyBytes bytes. `cell`: that of the tokens that it makes.
  explicit TokenMint(absl::string_view key, uint32_t cell = 0);
  ~TokenMint();

  std::string Handle(const TokenName& token) const;
  // nullopt unless the handle was made with this key, in whatever cell; `cell`, unless null, gets
  // its number. The comparison takes constant time.
  std::optional<TokenName> Read(absl::string_view handle, uint32_t* cell = nullptr) const;

  // HMAC-SHA-256 of `message` under the key, 32 bytes. The result for a label is a key for another
  // use. A key shorter than kTokenKeyBytes is filled up with zeros, as HMAC does.
  std::string Mac(absl::string_view message) const;

  uint32_t cell() const { return cell_; }

 private:
  struct Prepared;  // the key, with its two blocks hashed
  std::unique_ptr<const Prepared> prepared_;
  const uint32_t cell_;
};

// The cell that a handle names, without a check of its authenticity. nullopt: it is no handle.
std::optional<uint32_t> CellOfToken(absl::string_view handle);

// Reads the key and the store's cell. If there is no key, cell 0 puts `fresh_key` (kTokenKeyBytes
// bytes), and others wait for one. Repeats that until it has a key, then calls `done` on
// `executor`. FreshTokenKey makes a key; in the simulation the world's random numbers do.
void LoadTokenMint(kv::KvClient& client, std::shared_ptr<Executor> executor, std::string fresh_key,
                   absl::AnyInvocable<void(std::shared_ptr<const TokenMint>)> done);

// 32 random bytes of the machine (OpenSSL RAND_bytes).
std::string FreshTokenKey();

// Checks and reads a request of TokenService, and makes its report for an owner in another process.
//
// Pure; the random part of report keys is an argument.

// The request about one token.
struct TokenEntry {
  TokenName token = {};
  uint32_t position = 0;  // index of its result in the answer
  storage::v1::GrantReportRecord::Kind kind = storage::v1::GrantReportRecord::KIND_UNSPECIFIED;
  int64_t hold_micros = 0;  // for an extension; 0 = the policy's
  std::string output = {};  // for a completion
};

// TokenBatch: one request of TokenService, read.
struct TokenBatch {
  // One for each token of the request, in its order. Already decided are INVALID and the tokens
  // that are not in `entries`. UNSPECIFIED: the entry with that position will decide it.
  std::vector<v1::TokenResult::Status> results;
  // Each token once, in ascending order, so the entries of one policy shard and of one grant are
  // adjacent. If the request names a token twice, its first entry counts, and the later ones are
  // NOT_HELD.
  std::vector<TokenEntry> entries;
  // A second extension of a token in the same request gets the same result. (position, position of
  // the first extension.)
  struct Repeat {
    uint32_t position = 0;
    uint32_t first = 0;
  };
  std::vector<Repeat> repeats;
  // The cell of a token that is not of the mint's: then nothing may be done here.
  std::optional<uint32_t> other_cell;
  size_t bytes = 0;  // approximate bytes in memory
};

// INVALID_ARGUMENT with the fields that break the contract of TokenService; only the first ones if
// there are many.
absl::Status CheckTokens(const v1::CompleteTokensRequest& request);
absl::Status CheckTokens(const v1::ReleaseTokensRequest& request);
absl::Status CheckTokens(const v1::ExtendTokensRequest& request);

// The requests must have passed CheckTokens.
TokenBatch ReadTokens(const TokenMint& mint, const v1::CompleteTokensRequest& request);
TokenBatch ReadTokens(const TokenMint& mint, const v1::ReleaseTokensRequest& request);
TokenBatch ReadTokens(const TokenMint& mint, const v1::ExtendTokensRequest& request);

// The entry in the form for the owner of the policy shard, without a time.
storage::v1::GrantReportRecord::Entry ReportEntry(TokenEntry entry);

// The report rows in `waiting` (common/storage/waiting_table.h) that bring the entries to owners
// elsewhere. `entries` must be in ascending order, as in a TokenBatch. `time`: store time. (`a`,
// `b`): random.
std::vector<kv::Mutation> ReportRows(std::vector<TokenEntry> entries, absl::Time time, uint64_t a,
                                     uint64_t b);

// True if the grant's record says that the token's event still holds its token.
bool Holds(const storage::v1::GrantRecord& grant, uint64_t index);

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_BATCH_H_
