// Machines of the simulation: each runs one service in a process that can be killed, paused and
// started again.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_HOSTS_H_
#define TESTS_SIMULATION_WORLD_HOSTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_net_kv_store.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"
#include "common/sim/sim_world.h"
#include "common/tokens/token_door.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/record/store_observer.h"
#include "tests/simulation/world/forgetful_kv_store.h"
#include "tests/simulation/world/store_site.h"

namespace escapement::simulation {

class Host {
 public:
  virtual ~Host() = default;
  virtual void Start() = 0;  // must be down
  virtual void Kill() = 0;   // as kill -9; does nothing if it is down
  // Stops in order, then calls `done`. After that the host is down. By default the same as Kill.
  virtual void Stop(std::function<void()> done) {
    Kill();
    done();
  }
  // From now on the machine's wall clock is wrong by this much, if the host reports its clock.
  virtual void SetWallClockOffset(absl::Duration) {}
  bool up() const { return process_ != nullptr; }
  const std::string& name() const { return name_; }
  void Pause(absl::Duration duration) {
    if (up()) process_->Pause(duration);
  }

 protected:
  explicit Host(std::string name) : name_(std::move(name)) {}
  const std::string name_;
  uint64_t incarnation_ = 0;
  std::unique_ptr<sim::SimProcess> process_;
};

// Faults that a developer could make in the store's clock, to be planted.
enum class ClockFault {
  kNone,
  kFollowsAtOnce,      // follows any step of the wall clock, as if it had been confirmed
  kIgnoresOtherHosts,  // ignores other machines' reports of their clocks
  kBeginsAtWallClock,  // a restart forgets where store time stood
};

// The store: its disk outlives its processes.
class StoreHost final : public Host, public StoreSite {
 public:
  // `perturbations` may be null.
  StoreHost(sim::SimWorld& world, std::string name, kv::MemKvStore::Options options,
            Perturbations* perturbations)
      : Host(std::move(name)),
        world_(world),
        options_(std::move(options)),
        perturbations_(perturbations) {}

  void Start() override;
  void Kill() override;
  // Like Kill, but commits being synced become durable, and no client gets their answer.
  void KillAfterSync();
  void ForgetSessions() override { memory_.Forget(); }
  // From its next start on the store knows its machine's boot, as services of hosts with
  // `tells_clock` do.
  void set_knows_boot(bool knows) { knows_boot_ = knows; }
  void PlantClockFault(ClockFault fault) { clock_fault_ = fault; }
  void SetWallClockOffset(absl::Duration offset, Evidence evidence) override;
  void SetWallClockOffset(absl::Duration offset) override {
    SetWallClockOffset(offset, Evidence());
  }
  absl::Duration wall_clock_offset() const override { return wall_clock_offset_; }
  void ConfirmClock() override;
  const std::vector<absl::Time>& clock_confirmed() const override { return clock_confirmed_; }
  const std::vector<ClockSet>& clock_set() const override { return clock_set_; }
  // A planted fault: the disk reports syncs that it has not done. Whenever the store is killed,
  // `forget` removes from the disk what is lost.
  void LieAboutSyncs(std::function<void(kv::MemDisk&)> forget) { forget_ = std::move(forget); }

  void StartAll() override {
    if (!up()) Start();
  }
  std::unique_ptr<kv::KvStore> Connect(sim::SimNetwork& network, sim::SimProcess& client) override {
    return std::make_unique<sim::SimNetKvStore>(network, client, endpoint_,
                                                sim::SimNetKvStore::Options());
  }
  std::vector<std::string> processes() const override { return {name_}; }
  const kv::MemDisk& disk() const override { return *disk_; }

 private:
  sim::SimWorld& world_;
  const kv::MemKvStore::Options options_;
  Perturbations* const perturbations_;
  const std::shared_ptr<kv::MemDisk> disk_ = std::make_shared<kv::MemDisk>();
  absl::Duration wall_clock_offset_ = absl::ZeroDuration();
  bool wall_synchronised_ = false;
  bool knows_boot_ = false;
  ClockFault clock_fault_ = ClockFault::kNone;
  std::vector<absl::Time> clock_confirmed_;
  std::vector<ClockSet> clock_set_;
  std::function<void(kv::MemDisk&)> forget_;
  ForgetfulKvStore::Memory memory_;
  std::unique_ptr<kv::MemKvStore> store_;
  std::unique_ptr<ForgetfulKvStore> front_;
  sim::SimStoreEndpoint endpoint_{name_, nullptr};
};

struct ServiceIdentity {
  std::string instance;
  // Former instances of the host that are proven to be dead, as by an InstanceFile.
  std::vector<std::string> dead_instances;
};

// A process with a service that reaches the store over the network.
class ServiceHost final : public Host {
 public:
  struct Service {
    std::shared_ptr<void> service;
    // Drains the service, then calls `done` on one of its executors. Empty if the service cannot
    // drain.
    std::function<void(Closure done)> stop;
  };
  struct Options {
    std::string name;
    std::function<Service(sim::SimProcess&, kv::KvStore&, const ServiceIdentity&)> make;
    std::function<void()> on_down;  // may be empty
    // Wraps the service's way to the store, to plant a fault; may be empty.
    std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)> decorate;
    Perturbations* perturbations = nullptr;  // may be null
    // Receives the store's answers to the service's commits; may be null.
    StoreObservations* observations = nullptr;
    // If true, its wall clock is right, except for SetWallClockOffset, and it reports the clock to
    // the store. If false, the clock is wrong by up to 30 h and is not reported.
    bool tells_clock = false;
    // Plants a fault: the first instances of this host count as dead, too. Empty: no fault.
    std::string taken_for_dead = "";
  };

  // All outlive the host.
  ServiceHost(sim::SimNetwork& network, StoreSite& site, Options options)
      : Host(options.name), network_(network), site_(site), options_(std::move(options)) {}
  ~ServiceHost() override { Kill(); }

  void Start() override;
  void Kill() override;
  void Stop(std::function<void()> done) override;
  void SetWallClockOffset(absl::Duration offset) override;
  // The instances that are down, and since when.
  const std::map<std::string, absl::Time>& died() const { return died_; }

 private:
  std::string InstanceOf(uint64_t incarnation) const {
    return absl::StrCat(name_, "#", incarnation);
  }
  std::vector<std::string> DeadInstances() const;

  sim::SimNetwork& network_;
  StoreSite& site_;
  const Options options_;
  std::unique_ptr<kv::KvStore> store_;
  std::unique_ptr<StoreObserver> observed_;
  std::unique_ptr<kv::KvStore> decorated_;
  absl::Duration wall_clock_offset_ = absl::ZeroDuration();
  Service service_;
  std::map<std::string, absl::Time> died_;
};

// The services of production as parts of simulated machines.

// Where consumers give tokens back.
using TokenEndpoint = sim::SimEndpoint<TokenApi>;

// `apis` receives the master's APIs, `door` its token API. `door` may be null.
ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const ServiceIdentity& self, MasterApis* apis, TokenEndpoint* door);
// A master over two cells. `home` is its way to the home cell's store, `store` that to the store of
// the other one.
ServiceHost::Service MakeMasterOfCells(sim::SimProcess& process, std::unique_ptr<kv::KvStore> home,
                                       kv::KvStore& store, const ServiceIdentity& self,
                                       MasterApis* apis, TokenEndpoint* door);
ServiceHost::Service MakeTokenManager(sim::SimProcess& process, kv::KvStore& store,
                                      const ServiceIdentity& self, TokenEndpoint* door);
ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self);
// `target_events_out_max`: 0: the handler's default.
ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self,
                                 std::unique_ptr<handler::DeliveryTransport> transport,
                                 uint64_t target_events_out_max);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_HOSTS_H_
