// The `inflight` column family: claims and, beside each, the ends of its events, and what later
// owners of the shard have noted.
//
// queue shard (u16), epoch of the writer's lease (u64), number in that epoch (u64), 0 (u8) →
// ClaimRecord
//
// the same with 1 (u8) in place of 0, and then number of the end (u32) → ClaimEndRecord
//
// the same with 2 (u8) in place of 0 → ClaimTakeoverRecord
//
// How a cancellation and a claim of the same one-off event exclude each other: the event's row
// stays in `events` while it is claimed, so the row alone does not tell whether it may be
// cancelled. Therefore each group that puts a claim of one-off events does two things. It has the
// condition kPresent on each one-off row that it claims. And it puts ClaimMarkKey(shard) with an
// empty value, one small put for the whole claim. CancelEvent reads the shard's claims at a
// snapshot S, and refuses if one of them holds the row. Otherwise it deletes the row under two
// conditions: the row is present, and the mark is unchanged since S. The first of the two commits
// wins.

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
  enum class Kind : uint8_t { kClaim, kEnd, kTakeover };
  ClaimId claim;
  Kind kind = Kind::kClaim;
  uint32_t end_number = 0;  // only for an end

  bool is_claim() const { return kind == Kind::kClaim; }
  bool is_end() const { return kind == Kind::kEnd; }
};

// Two kinds of owners write claims into a queue shard, each under the epoch of its own lease: the
// owner of the queue shard and, for events that hold tokens, the owner of their policy shard. To
// keep their numbers apart, the second kind sets the highest bit, and then the policy shard.
uint64_t GrantedClaimNumber(uint16_t policy_shard, uint64_t counter);  // counter < 2^40
bool IsGranted(const ClaimId& claim);

std::string EncodeClaimKey(const ClaimId& claim);
std::string EncodeClaimEndKey(const ClaimId& claim, uint32_t end_number);
std::string EncodeClaimTakeoverKey(const ClaimId& claim);
std::optional<InflightKey> DecodeInflightKey(absl::string_view key);

// All keys of one claim: [ClaimPrefix, PrefixEnd(ClaimPrefix)).
std::string ClaimPrefix(const ClaimId& claim);
std::string InflightShardBegin(uint16_t shard);
std::string InflightShardEnd(uint16_t shard);

// A key in `meta`. Its value is the epoch (u64) of the last owner of the shard that has noted, in
// ClaimTakeoverRecords, which claims former owners have left. All claims without a note are its
// own.
std::string TakeoverMarkKey(uint16_t shard);

// A key in `meta`. Each group that puts a claim with a one-off event of the shard also puts this
// key.
std::string ClaimMarkKey(uint16_t shard);

}  // namespace escapement

#endif  // COMMON_STORAGE_INFLIGHT_TABLE_H_
