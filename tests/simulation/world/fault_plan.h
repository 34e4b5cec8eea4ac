// What goes wrong, drawn from the seed: crashes and restarts, orderly restarts, pauses beyond
// leases, crashes of the store, sessions that it forgets, a wall clock of it that leaps, partitions
// in one direction, and times in which messages are lost, doubled and late.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_FAULT_PLAN_H_
#define TESTS_SIMULATION_WORLD_FAULT_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"
#include "tests/simulation/world/hosts.h"

namespace escapement::simulation {

class FaultPlan {
 public:
  struct Options {
    absl::Duration begin;  // since the world began
    absl::Duration end;    // by then everything is healed
    int faults = 8;
    int kills = 0;  // of services, beside those
    // Instead of other trouble with the store's wall clock: steps of a second and of this (hour or
    // day), back and forth, also while the store is down. Some of them are shown by all machines,
    // some are called synchronised by the kernel, some the operator believes.
    absl::Duration clock_step = absl::ZeroDuration();
    int clock_steps = 0;
    int freezes = 0;  // of services, for longer than their leases
    // In which all emitters are down: longer than they plan ahead.
    int downtimes = 0;
    // Of handlers from the store for longer than their leases, while what they have sent is slow.
    int cut_offs = 0;
  };
  struct Parts {
    StoreHost& store;
    std::vector<Host*> services;
    sim::SimNetwork& store_network;     // services to the store
    sim::SimNetwork& consumer_network;  // handlers to the consumer
  };

  // All outlive the plan.
  FaultPlan(sim::SimWorld& world, Parts parts, Options options);

  // Lets it happen.
  void Schedule();
  // So many services and stores have been killed.
  int killed() const { return killed_; }
  // How often what went wrong.
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  void Draw();
  void CrashService(Host& host);
  void RestartInOrder(Host& host);
  void CrashStore();
  void ForgetSessions();
  void WrongWallClock();
  void StepClock();
  void SetClocks(absl::Duration offset, StoreHost::Evidence evidence);
  void StepBack();
  void Freeze();
  void Downtime();
  void CutOff();
  void Partition(sim::SimNetwork& network, const std::string& from, const std::string& to);
  void Noise(sim::SimNetwork& network);
  void Heal();
  void StartLater(Host& host, absl::Duration after);
  absl::Duration Lasting(absl::Duration low, absl::Duration high) {
    return random_.Between(low, high);
  }
  // Shows in the trace; the second one counts, too.
  void Tell(absl::string_view what);
  void Tell(absl::string_view kind, absl::string_view what);

  sim::SimWorld& world_;
  const Parts parts_;
  const Options options_;
  sim::SimRandom random_;
  bool healed_ = false;
  absl::Time emitters_down_to_ = absl::InfinitePast();
  int killed_ = 0;
  absl::Time store_still_to_ = absl::InfinitePast();  // it stands still until then
  std::map<std::string, uint64_t> counts_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_FAULT_PLAN_H_
