// Leases: which ones an instance should hold (PlanLeases), and their rows in the store (LeaseRow).

#ifndef COMMON_LEASE_LEASE_TABLE_H_
#define COMMON_LEASE_LEASE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::lease {

// PlanLeases: decides which leases an instance should release or acquire, so that all live
// instances hold balanced shares.
//
// With n live members and c leases, each member should hold ⌊c / n⌋. The c mod n members that hold
// most already should hold one more (ties by name), so that no lease moves without need. All
// members decide from their own reads. If a read is a moment old, that costs a further round but
// never a double owner, because acquiring is conditional in the store.
//
// Pure.

struct SeenLease {
  std::string owner;  // empty: free (never held, or released)
  bool expired = false;
};

struct LeasePlan {
  std::vector<uint32_t> release;
  std::vector<uint32_t> acquire;
};

struct LeasePlanInput {
  absl::string_view self;
  std::vector<std::string> members;  // live instances; self is added if it is missing
  std::vector<SeenLease> leases;     // by index
  // Leases that self holds by its own knowledge, ascending, without those that it is already
  // releasing.
  std::vector<uint32_t> held;
};

LeasePlan PlanLeases(const LeasePlanInput& input);

// Keys and values of the column families `leases` and `members`.
//
// leases: kind "/" index (5 digits) → epoch (u64, big-endian), end (8-byte stamp, store time),
// owner (text; empty once released)
//
// members: kind "/" instance → end (8-byte stamp, store time)
//
// Pure.

struct LeaseRow {
  uint64_t epoch = 0;
  absl::Time end;     // for a released lease: when it was released
  std::string owner;  // empty: released

  friend bool operator==(const LeaseRow&, const LeaseRow&) = default;
};

inline constexpr uint32_t kLeaseStampOffset = 8;
inline constexpr uint32_t kMemberStampOffset = 0;

// The first epoch of the leases of a cell (docs/design/cells.md). A token names an epoch, so those
// of different cells are apart.
constexpr uint64_t FirstEpochOf(uint32_t cell) { return (uint64_t{cell} << 56) + 1; }

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
