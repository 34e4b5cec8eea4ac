// The faults of a run, drawn from the seed. Services and the store crash, restart in order, or
// pause beyond their leases. The store forgets sessions, and its wall clock leaps. Networks have
// one-way partitions, and times in which they lose, double and delay messages.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_FAULT_PLAN_H_
#define TESTS_SIMULATION_WORLD_FAULT_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"
#include "tests/simulation/world/hosts.h"
#include "tests/simulation/world/replica_faults.h"
#include "tests/simulation/world/store_site.h"

namespace escapement::simulation {

class FaultPlan {
 public:
  struct Options {
    absl::Duration begin;  // from the world's beginning
    absl::Duration end;    // by then everything is healed
    int faults = 8;
    int kills = 0;  // kills of services, besides `faults`
    // Replaces other trouble with the store's wall clock. The clock is set back and forth by a
    // second, by minutes or by `clock_step` (an hour or a day), sometimes while the store is down.
    // As evidence, all machines may show the step, the kernel may call it synchronised, or the
    // operator may confirm it.
    absl::Duration clock_step = absl::ZeroDuration();
    int clock_steps = 0;
    int freezes = 0;  // pauses of services, longer than their leases
    // Times in which all emitters are down, longer than they plan ahead.
    int downtimes = 0;
    // Times in which a handler does not reach the store, longer than its leases, while its attempts
    // are slow.
    int cut_offs = 0;
    int replica_faults = 0;     // ReplicaFaults, besides `faults`
    bool log_set_back = false;  // once, see ReplicaFaults::SetLogBack
  };
  struct Parts {
    StoreSite& store;
    // `store` is one of these; the other one is null.
    StoreHost* single;
    ReplicaSet* replicas;
    std::vector<Host*> services;
    sim::SimNetwork& store_network;     // services to the store
    sim::SimNetwork& consumer_network;  // handlers to the consumer
  };

  // All outlive the plan.
  FaultPlan(sim::SimWorld& world, Parts parts, Options options);

  // Schedules all faults in the world.
  void Schedule();
  // Kills the handler of that name, which has sent an event that it does not survive.
  void Poison(const std::string& handler);
  // How many services and stores have been killed.
  int killed() const {
    return killed_ + (replica_faults_ == nullptr ? 0 : replica_faults_->killed());
  }
  // Kind of fault → how often it happened.
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  void Draw();
  void CrashService(Host& host);
  void RestartInOrder(Host& host);
  void CrashStore();
  void ForgetSessions();
  void WrongWallClock();
  void StepClock();
  void SetClocks(absl::Duration offset, StoreSite::Evidence evidence);
  void StepBack();
  void Freeze();
  void Downtime();
  void CutOff();
  void Partition(sim::SimNetwork& network, const std::string& from, const std::string& to);
  // The name of one of its processes.
  std::string StoreName();
  void Noise(sim::SimNetwork& network);
  void Heal();
  void StartLater(Host& host, absl::Duration after);
  absl::Duration Lasting(absl::Duration low, absl::Duration high) {
    return random_.Between(low, high);
  }
  // Both show in the trace; the second one also counts the kind.
  void Tell(absl::string_view what);
  void Tell(absl::string_view kind, absl::string_view what);

  sim::SimWorld& world_;
  const Parts parts_;
  const Options options_;
  sim::SimRandom random_;
  bool healed_ = false;
  absl::Time emitters_down_to_ = absl::InfinitePast();
  int killed_ = 0;
  absl::Time store_still_to_ = absl::InfinitePast();  // until then the store stands still
  std::map<std::string, uint64_t> counts_;
  std::unique_ptr<ReplicaFaults> replica_faults_;  // null with a single store
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_FAULT_PLAN_H_
