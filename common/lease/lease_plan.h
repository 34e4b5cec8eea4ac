// Decides which leases an instance should release or acquire, so that all live instances hold
// balanced shares.
//
// With n live members and c leases, each member should hold ⌊c / n⌋. The c mod n members that hold
// most already should hold one more (ties by name), so that no lease moves without need. All
// members decide from their own reads. If a read is a moment old, that costs a further round but
// never a double owner, because acquiring is conditional in the store.
//
// Pure.

#ifndef COMMON_LEASE_LEASE_PLAN_H_
#define COMMON_LEASE_LEASE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::lease {

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

}  // namespace escapement::lease

#endif  // COMMON_LEASE_LEASE_PLAN_H_
