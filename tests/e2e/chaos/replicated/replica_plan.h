// The faults of one run with a replicated store, drawn from a seed.
//
// Victims are roles: "store.leader", "store.follower", the links "leader>postgres",
// "follower>postgres" and "clients>leader", and those of ShakenPostgres. A fault hits the store
// that has the role when the fault begins.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_REPLICATED_REPLICA_PLAN_H_
#define TESTS_E2E_CHAOS_REPLICATED_REPLICA_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/chaos/base/chaos_plan.h"

namespace escapement::chaos {

// A leader that stands still for so long is not the leader any more when it goes on: another store
// leads after 3 s.
inline constexpr absl::Duration kZombiePause = absl::Seconds(10);

struct ReplicaPlanOptions {
  uint64_t seed = 1;
  int faults = 30;  // 30 have each kind at least once
  absl::Duration begin = absl::Seconds(4);
  // The faults are spread over this time. They take longer if they do not fit.
  absl::Duration end = absl::Seconds(100);
};

// The part that a fault hits: "leaders", "followers", "postgres" or "links". Faults of one group do
// not overlap; those of different groups may.
std::string GroupOf(const Fault& fault);

// The faults in order of their begin.
std::vector<Fault> PlanReplicaChaos(const ReplicaPlanOptions& options);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_REPLICA_PLAN_H_
