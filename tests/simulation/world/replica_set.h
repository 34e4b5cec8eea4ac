// ReplicaSet is the simulated store of several replicas.
//
// ReplicaHost: a machine with one replica of the store. The classes are those of production, except
// for the copy in memory (common/kv/replica/testing) and the log (MemLog). The folder outlives its
// processes.
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

#include "absl/time/time.h"
#include "common/kv/layout.h"
#include "common/kv/log/memory/mem_log.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/kv/replica/replica_loop.h"
#include "common/kv/replica/replicated_kv_store.h"
#include "common/kv/replica/testing/mem_replica.h"
#include "common/kv/replica/testing/mem_snapshots.h"
#include "common/sim/sim_net_kv_store.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "tests/simulation/world/forgetful_kv_store.h"
#include "tests/simulation/world/hosts.h"
#include "tests/simulation/world/store_site.h"

namespace escapement::simulation {

// Faults that a developer could make in replicas or their log, to be planted in all of them.
struct ReplicaMistakes {
  // Wraps a replica's way to the log. May be empty.
  std::function<std::unique_ptr<kv::SharedLog>(kv::SharedLog&, kv::MemLogEngine&)> decorate_log =
      nullptr;
  bool ignores_lease = false;      // MemLeadingStore::Options
  bool tears_checkpoints = false;  // MemReplica::Options
};

class ReplicaHost final : public Host {
 public:
  struct Options {
    std::string name;
    std::string address;  // IP address and port
    kv::Layout layout;
    // Its clocks are those of a machine that all replicas share. Otherwise each has clocks of its
    // own, and a successor does not know exactly how old the last record of store time is.
    bool shares_machine = false;
    uint64_t snapshot_log_bytes = 256 << 10;
    // See MemLeadingStore::Options.
    std::function<void(absl::string_view row, const kv::MemLeadingStore::Records& records)>
        on_batch;
    ReplicaMistakes mistakes;
    Perturbations* perturbations = nullptr;  // may be null
  };

  // All outlive the host. `sessions` is shared by all replicas.
  ReplicaHost(sim::SimWorld& world, kv::MemLogEngine& engine, ForgetfulKvStore::Memory& sessions,
              Options options);
  ~ReplicaHost() override { Kill(); }

  void Start() override;
  void Kill() override;
  // Hands over first, if it leads.
  void Stop(std::function<void()> done) override;
  void HandOver();
  void SetWallClockOffset(absl::Duration offset) override;

  // While it is down: deletes its folder, or sets it back to the state at the last start, as after
  // a loss of what was not synced.
  void DeleteFolder() { *folder_ = kv::MemDisk(); }
  void SetFolderBack() { *folder_ = at_start_; }

  bool leads() const { return up() && copy_->store() != nullptr; }
  kv::ReplicaStatus status() const { return loop_->status(); }
  // The last row that its copy on disk knows to have been acknowledged; 0: none.
  uint64_t proven_seq() const;
  // How often its replicas have begun to serve.
  uint64_t terms() const { return terms_ + (up() ? copy_->terms() : 0); }
  uint64_t restored() const { return restored_ + (up() ? snapshots_->restored() : 0); }
  uint64_t uploaded() const { return uploaded_ + (up() ? snapshots_->uploaded() : 0); }
  const std::string& address() const { return options_.address; }
  const sim::SimStoreEndpoint& endpoint() const { return endpoint_; }
  const kv::MemDisk& folder() const { return *folder_; }

 private:
  std::string Owner() const { return absl::StrCat(name_, "#", incarnation_); }
  std::string LeaderAddress() const;

  sim::SimWorld& world_;
  kv::MemLogEngine& engine_;
  ForgetfulKvStore::Memory& memory_;
  const Options options_;
  const std::shared_ptr<kv::MemDisk> folder_ = std::make_shared<kv::MemDisk>();
  kv::MemDisk at_start_;
  absl::Duration wall_clock_offset_ = absl::ZeroDuration();
  // Counts of its former processes.
  uint64_t terms_ = 0;
  uint64_t restored_ = 0;
  uint64_t uploaded_ = 0;

  std::unique_ptr<kv::MemLog> log_;
  std::unique_ptr<kv::SharedLog> decorated_;
  std::unique_ptr<kv::MemReplica> copy_;
  std::unique_ptr<kv::MemSnapshots> snapshots_;
  std::unique_ptr<kv::ReplicaLoop> loop_;
  std::unique_ptr<kv::LeaderFront> leader_front_;
  std::unique_ptr<ForgetfulKvStore> front_;
  sim::SimStoreEndpoint endpoint_;
};

// ReplicaSet: the store as two or three replicas over one log in memory. Clients look for the one
// that leads (LeaderSeekingKvStore).
//
// The truth is what the log's engine has replicated: `disk()` has the effects of those rows, and a
// commit is durable when its row is.
//
// Threads: the world's.

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
