// The `inflight` column family: claims and, beside each, what of it has ended.
//
// queue shard (u16), epoch of the writer's lease (u64), number in that epoch (u64), 0 (u8) →
// ClaimRecord
// the same with 1 (u8) instead, number of the end (u32) → ClaimEndRecord
//
// Cancelling a one-off event against its claim: its row stays in `events` while it is claimed, so
// the row alone does not say whether it may still be cancelled. Therefore every group that puts a
// claim of one-off events (a) has the condition kPresent on each one-off row it claims, and (b)
// puts ClaimMarkKey(shard), with an empty value: one small put per claim, however many events it
// holds. CancelEvent reads the shard's claims at a snapshot S, refuses if one of them holds the
// row, and otherwise deletes the row under the conditions that it is present and that the mark is
// unchanged since S. Whoever commits first wins.

#ifndef COMMON_STORAGE_INFLIGHT_TABLE_H_
#define COMMON_STORAGE_INFLIGHT_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

struct ClaimId {
  uint16_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;

  friend bool operator==(const ClaimId&, const ClaimId&) = default;
};

struct InflightKey {
  ClaimId claim;
  bool is_end = false;
  uint32_t end_number = 0;  // of an end
};

// Claims are written by the owner of the queue shard under the epoch of its lease and, of events
// that hold tokens, by the owner of their policy shard under the epoch of *its* lease: the numbers
// of those have the highest bit, then the policy shard, so that the two never meet.
uint64_t GrantedClaimNumber(uint16_t policy_shard, uint64_t counter);  // counter < 2^40
bool IsGranted(const ClaimId& claim);

std::string EncodeClaimKey(const ClaimId& claim);
std::string EncodeClaimEndKey(const ClaimId& claim, uint32_t end_number);
std::optional<InflightKey> DecodeInflightKey(absl::string_view key);

// All keys of one claim: [ClaimPrefix, PrefixEnd(ClaimPrefix)).
std::string ClaimPrefix(const ClaimId& claim);
std::string InflightShardBegin(uint16_t shard);
std::string InflightShardEnd(uint16_t shard);

// In `meta`: put by every group that puts a claim with a one-off event of the shard.
std::string ClaimMarkKey(uint16_t shard);

}  // namespace escapement

#endif  // COMMON_STORAGE_INFLIGHT_TABLE_H_
