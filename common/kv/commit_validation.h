// What a commit may look like, before anything is read.

#ifndef COMMON_KV_COMMIT_VALIDATION_H_
#define COMMON_KV_COMMIT_VALIDATION_H_

#include <cstddef>

#include "absl/status/status.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

// A DeleteRange in kInflight without a count must lie within keys that share this many first bytes
// (queue shard and epoch); one in kDone must be exactly the keys with a prefix of this many bytes
// (queue shard and day).
inline constexpr size_t kClaimPrefixBytesMin = 10;
inline constexpr size_t kDoneDayPrefixBytes = 6;

// INVALID_ARGUMENT: too many groups or bytes, a key or value too long, a stamp outside its value, a
// forbidden DeleteRange, a key that one group puts and writes again (except an exact repeat of a
// key that it does not want absent), one of the store's own keys, or an unknown column family or
// kind.
absl::Status ValidateCommit(const CommitRequest& request);

absl::Status ValidateScan(const ScanRequest& request);
absl::Status ValidateKeys(const std::vector<Key>& keys);
// OUT_OF_RANGE: it does not fit into an answer.
absl::Status ValidateAnswer(const GetResult& result);

}  // namespace escapement::kv

#endif  // COMMON_KV_COMMIT_VALIDATION_H_
