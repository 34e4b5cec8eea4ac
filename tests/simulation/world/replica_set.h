// ReplicaSet: the store as two or three replicas over one log in memory. Clients look for the one
// that leads (LeaderSeekingKvStore).
//
// The truth is what the log's engine has replicated: `disk()` has the effects of those rows, and a
// commit is durable when its row is.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_REPLICA_SET_H_
#define TESTS_SIMULATION_WORLD_REPLICA_SET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/log/memory/mem_log_engine.h"
#include "tests/simulation/world/replica_host.h"
#include "tests/simulation/world/store_site.h"

namespace escapement::simulation {

class ReplicaSet final : public StoreSite {
 public:
  struct Options {
    int replicas = 3;
    bool share_machine = false;  // see ReplicaHost::Options
    kv::Layout layout;
    // See MemKvStore::Options.
    std::function<void(const kv::CommitRecord&)> on_durable;
    ReplicaMistakes mistakes;
    Perturbations* perturbations = nullptr;  // may be null
  };

  // `world` outlives it.
  ReplicaSet(sim::SimWorld& world, Options options);

  void StartAll() override;
  const kv::MemDisk& disk() const override { return truth_; }
  std::unique_ptr<kv::KvStore> Connect(sim::SimNetwork& network, sim::SimProcess& client) override;
  std::vector<std::string> processes() const override;
  void ForgetSessions() override { memory_.Forget(); }
  // Only of the machine that leads now, or of the first. Zero: of all machines.
  void SetWallClockOffset(absl::Duration offset, Evidence evidence) override;
  absl::Duration wall_clock_offset() const override { return wall_clock_offset_; }
  void ConfirmClock() override;
  const std::vector<absl::Time>& clock_confirmed() const override { return clock_confirmed_; }
  const std::vector<ClockSet>& clock_set() const override { return clock_set_; }

  kv::MemLogEngine& engine() { return engine_; }
  const std::vector<std::unique_ptr<ReplicaHost>>& hosts() const { return hosts_; }
  // The replica that leads; null if none does. If two believe that they lead, the later term wins.
  ReplicaHost* leader() const;

  const std::vector<LoggedRow>& log() const { return log_; }
  // The complaints about the replicas now: none leads, or a copy is not as the log says.
  std::vector<std::string> WrongCopies() const;
  // Counts by kind: takeovers, handovers, proofs, snapshots.
  std::map<std::string, uint64_t> counts() const;

 private:
  void OnReplicated(const kv::LogRow& row);
  std::string WhatIsWrong(const ReplicaHost& host) const;

  sim::SimWorld& world_;
  const Options options_;
  sim::SimProcess engine_process_;
  kv::MemLogEngine engine_;
  kv::MemDisk truth_;
  std::vector<LoggedRow> log_;
  // Commits of batches that were sent to the log, by a hash of their row.
  std::map<uint64_t, kv::MemLeadingStore::Records> sent_;
  ForgetfulKvStore::Memory memory_;
  absl::Duration wall_clock_offset_ = absl::ZeroDuration();
  std::vector<absl::Time> clock_confirmed_;
  std::vector<ClockSet> clock_set_;
  std::vector<std::unique_ptr<ReplicaHost>> hosts_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_REPLICA_SET_H_
