// ReplicaFaults: what breaks in a replicated store. Replicas are killed, restart with or without
// their folder, stand still and wake up as former leaders, and hand over. They lose the log. The
// log's engine is slow, loses calls and answers, restarts, shows rows that a failover then loses,
// and is away. If asked for, it is once set back to a backup, and repaired later.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_REPLICA_FAULTS_H_
#define TESTS_SIMULATION_WORLD_REPLICA_FAULTS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/log/memory/mem_log_state.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"
#include "tests/simulation/world/replica_set.h"

namespace escapement::simulation {

class ReplicaFaults {
 public:
  // `tell(kind, what)` counts a fault and shows it in the trace. An empty kind is only shown. All
  // arguments outlive it.
  using Tell = std::function<void(absl::string_view kind, absl::string_view what)>;
  ReplicaFaults(sim::SimWorld& world, ReplicaSet& replicas, Tell tell);

  // Something breaks now, and is mended within seconds.
  void Draw();
  // Sets the log back to what it is now, once each replica knows of later acknowledged rows: all
  // replicas end, and find the older log when they start. Seconds later the log is repaired.
  // Nothing else breaks in between. All of that in its time, before Heal.
  void SetLogBack();
  // From now on nothing is broken.
  void Heal();

  int killed() const { return killed_; }

 private:
  ReplicaHost& LeaderOrAny();
  ReplicaHost& Any();
  void KillOne(ReplicaHost& host);
  void StartLater(ReplicaHost& host);
  void PauseOne(ReplicaHost& host, absl::Duration low, absl::Duration high);
  void CutFromLog(ReplicaHost& host);
  void Noise();
  void Outage();
  void LoseShownRows();
  void TryToSetLogBack(std::shared_ptr<const kv::MemLogState> backup);
  void RepairLog();
  absl::Duration Lasting(absl::Duration low, absl::Duration high) {
    return random_.Between(low, high);
  }

  sim::SimWorld& world_;
  ReplicaSet& replicas_;
  const Tell tell_;
  sim::SimRandom random_;
  bool healed_ = false;
  std::shared_ptr<const kv::MemLogState> whole_log_;  // while it is set back; otherwise null
  int killed_ = 0;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_REPLICA_FAULTS_H_
