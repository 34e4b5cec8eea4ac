// Which leases an instance should give up or take, so that all live instances hold their balanced
// share.
//
// With n live members and c leases each is due ⌊c / n⌋, and c mod n of them one more: those that
// hold most already, so that nothing moves without need (ties by name). All members decide from
// what they read; a view that is a moment old costs a further round, never a double owner, because
// taking is conditional in the store.
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
  std::vector<std::string> members;  // live instances; self is added if missing
  std::vector<SeenLease> leases;     // by index
  // By self, ascending, as it knows (what it holds but gives up already is left out).
  std::vector<uint32_t> held;
};

LeasePlan PlanLeases(const LeasePlanInput& input);

}  // namespace escapement::lease

#endif  // COMMON_LEASE_LEASE_PLAN_H_
