// Checks a request before the store reads anything.
//
// Pure.

#ifndef COMMON_KV_COMMIT_VALIDATION_H_
#define COMMON_KV_COMMIT_VALIDATION_H_

#include <cstddef>

#include "absl/status/status.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

// A DeleteRange without a kRangeCount condition is allowed in two families. In kInflight its keys
// must share their first 10 bytes (queue shard and epoch). In kDone its range must be all keys with
// one prefix of 6 bytes (queue shard and day).
inline constexpr size_t kClaimPrefixBytesMin = 10;
inline constexpr size_t kDoneDayPrefixBytes = 6;

// INVALID_ARGUMENT if the commit has too many groups or bytes, a key or value that is too long, a
// stamp outside its value, a forbidden DeleteRange, one of the store's own keys, or an unknown
// column family or kind. Also if one group puts a key and then writes it again, unless the second
// write is an exact repeat and the group does not want the key absent.
absl::Status ValidateCommit(const CommitRequest& request);

absl::Status ValidateScan(const ScanRequest& request);
absl::Status ValidateKeys(const std::vector<Key>& keys);
// OUT_OF_RANGE if the values are too large for one answer.
absl::Status ValidateAnswer(const GetResult& result);

}  // namespace escapement::kv

#endif  // COMMON_KV_COMMIT_VALIDATION_H_
