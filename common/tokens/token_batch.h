// TokenBatch: one request of TokenService, checked and read, and its report for an owner in another
// process.
//
// Pure; the random part of report keys is an argument.

#ifndef COMMON_TOKENS_TOKEN_BATCH_H_
#define COMMON_TOKENS_TOKEN_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/tokens/token_handle.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement {

// The request about one token.
struct TokenEntry {
  TokenName token = {};
  uint32_t position = 0;  // index of its result in the answer
  storage::v1::GrantReportRecord::Kind kind = storage::v1::GrantReportRecord::KIND_UNSPECIFIED;
  int64_t hold_micros = 0;  // for an extension; 0 = the policy's
  std::string output = {};  // for a completion
};

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
