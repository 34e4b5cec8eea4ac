// StoreSite: the store as services, users and checkers of a scenario see it. StoreHost is one
// process; ReplicaSet is several replicas over one log.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_STORE_SITE_H_
#define TESTS_SIMULATION_WORLD_STORE_SITE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class StoreSite {
 public:
  virtual ~StoreSite() = default;

  // Starts every process that is down.
  virtual void StartAll() = 0;
  // The durable state.
  virtual const kv::MemDisk& disk() const = 0;
  // A client's access over the network. All outlive it.
  virtual std::unique_ptr<kv::KvStore> Connect(sim::SimNetwork& network,
                                               sim::SimProcess& client) = 0;
  // The names of the processes, for partitions.
  virtual std::vector<std::string> processes() const = 0;

  // From now on all sessions that are open are refused.
  virtual void ForgetSessions() = 0;
  // From now on its machine's wall clock is wrong by `offset`. `evidence`: whether its kernel calls
  // the clock synchronised, and whether all other machines show the same.
  struct Evidence {
    bool synchronised = false;
    bool everywhere = false;
  };
  virtual void SetWallClockOffset(absl::Duration offset, Evidence evidence) = 0;
  virtual absl::Duration wall_clock_offset() const = 0;
  // The operator confirms that the wall clock is right.
  virtual void ConfirmClock() = 0;
  // When the operator did so while the store was up.
  virtual const std::vector<absl::Time>& clock_confirmed() const = 0;
  virtual const std::vector<ClockSet>& clock_set() const = 0;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_STORE_SITE_H_
