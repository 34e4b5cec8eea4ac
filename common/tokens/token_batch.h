// TokenBatch: what one request of TokenService asks for, checked and read; and its report for an
// owner that is elsewhere.
//
// Pure, but for the randomness of report keys, which is given.

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

// What is asked of one token.
struct TokenEntry {
  TokenName token = {};
  uint32_t position = 0;  // of its result in the answer
  storage::v1::GrantReportRecord::Kind kind = storage::v1::GrantReportRecord::KIND_UNSPECIFIED;
  int64_t hold_micros = 0;  // of extensions; 0 = the policy's
  std::string output = {};  // of completions
};

struct TokenBatch {
  // One for each token of the request, in its order. Decided already: INVALID, and those that
  // `entries` leaves out. UNSPECIFIED: it is to come from the entry of that position.
  std::vector<v1::TokenResult::Status> results;
  // Each token once, in ascending order, so those of one policy shard and of one grant are
  // together. Of a token that is named again the first entry counts; the others are NOT_HELD, being
  // after it.
  std::vector<TokenEntry> entries;
  // Extensions of a token that is extended already by the request: (position, position of that
  // one), with the same result.
  struct Repeat {
    uint32_t position = 0;
    uint32_t first = 0;
  };
  std::vector<Repeat> repeats;
  size_t bytes = 0;  // what it takes in memory, about
};

// INVALID_ARGUMENT with the fields that are against the contract of TokenService (of very many the
// first ones).
absl::Status CheckTokens(const v1::CompleteTokensRequest& request);
absl::Status CheckTokens(const v1::ReleaseTokensRequest& request);
absl::Status CheckTokens(const v1::ExtendTokensRequest& request);

// Of requests that have been checked.
TokenBatch ReadTokens(const TokenMint& mint, const v1::CompleteTokensRequest& request);
TokenBatch ReadTokens(const TokenMint& mint, const v1::ReleaseTokensRequest& request);
TokenBatch ReadTokens(const TokenMint& mint, const v1::ExtendTokensRequest& request);

// As the owner of the policy shard reads it, without a time.
storage::v1::GrantReportRecord::Entry ReportEntry(TokenEntry entry);

// The rows in `waiting` that say it to owners elsewhere; `entries` ascend as those of a TokenBatch.
// `time`: store time. (`a`, `b`): random.
std::vector<kv::Mutation> ReportRows(std::vector<TokenEntry> entries, absl::Time time, uint64_t a,
                                     uint64_t b);

// Whether the token's event is among the grant's holders.
bool Holds(const storage::v1::GrantRecord& grant, uint64_t index);

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_BATCH_H_
