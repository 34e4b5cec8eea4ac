// Keys and values of the column families `leases` and `members`.
//
// leases: kind "/" index (5 digits) → epoch (u64, big-endian), end (8-byte stamp, store time),
// owner (text; empty once released)
//
// members: kind "/" instance → end (8-byte stamp, store time)
//
// Pure.

#ifndef COMMON_LEASE_LEASE_TABLE_H_
#define COMMON_LEASE_LEASE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::lease {

struct LeaseRow {
  uint64_t epoch = 0;
  absl::Time end;     // for a released lease: when it was released
  std::string owner;  // empty: released

  friend bool operator==(const LeaseRow&, const LeaseRow&) = default;
};

inline constexpr uint32_t kLeaseStampOffset = 8;
inline constexpr uint32_t kMemberStampOffset = 0;

std::string LeaseKey(absl::string_view kind, uint32_t index);
// The prefix of all leases (or members) of a kind.
std::string KindPrefix(absl::string_view kind);
// nullopt if the key is not of this kind.
std::optional<uint32_t> LeaseIndexOf(absl::string_view kind, absl::string_view key);

// The end stays zero: the store writes it (Mutation::kPutStamped at kLeaseStampOffset).
std::string EncodeLeaseValue(uint64_t epoch, absl::string_view owner);
std::optional<LeaseRow> DecodeLeaseValue(absl::string_view value);
// The prefix of every value with this epoch, for the fence.
std::string EpochPrefix(uint64_t epoch);

std::string MemberKey(absl::string_view kind, absl::string_view instance);
std::string EncodeMemberValue();
std::optional<absl::Time> DecodeMemberValue(absl::string_view value);

}  // namespace escapement::lease

#endif  // COMMON_LEASE_LEASE_TABLE_H_
