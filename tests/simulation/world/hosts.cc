#include "tests/simulation/world/hosts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/layout.h"
#include "common/tokens/token_door.h"
#include "services/emitter/service/emitter_service.h"
#include "services/handler/service/handler_service.h"
#include "services/master/service/cell_masters.h"
#include "services/master/service/master_service.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::simulation {

void StoreHost::Start() {
  sim::SimProcess::Options options;
  options.wall_clock_offset = wall_clock_offset_;
  options.wall_synchronised = wall_synchronised_;
  if (knows_boot_) options.boot_id = name_;
  options.incarnation = ++incarnation_;
  options.perturbations = perturbations_;
  process_ = std::make_unique<sim::SimProcess>(world_, name_, options);
  if (clock_fault_ == ClockFault::kBeginsAtWallClock)
    disk_->families[static_cast<size_t>(kv::ColumnFamily::kMeta)].erase(std::string(kv::kClockKey));
  store_ = std::make_unique<kv::MemKvStore>(*process_, options_, disk_);
  memory_.forgets_hosts = clock_fault_ == ClockFault::kIgnoresOtherHosts;
  front_ = std::make_unique<ForgetfulKvStore>(*store_, memory_);
  endpoint_.service = front_.get();
}

void StoreHost::Kill() {
  if (!up()) return;
  process_->Kill();
  endpoint_.service = nullptr;
  store_.reset();
  front_.reset();
  process_.reset();
  if (forget_) forget_(*disk_);
}

void StoreHost::SetWallClockOffset(absl::Duration offset, Evidence evidence) {
  if (up()) {
    process_->StepWallClock(offset - wall_clock_offset_);
    process_->SetWallSynchronised(evidence.synchronised);
  }
  wall_clock_offset_ = offset;
  wall_synchronised_ = evidence.synchronised;
  clock_set_.push_back({world_.Now(), offset, evidence.synchronised, evidence.everywhere});
  if (up() && clock_fault_ == ClockFault::kFollowsAtOnce) store_->ConfirmClock();
}

void StoreHost::ConfirmClock() {
  if (!up()) return;
  clock_confirmed_.push_back(world_.Now());
  store_->ConfirmClock();
}

void StoreHost::KillAfterSync() {
  if (!up()) return;
  endpoint_.service = nullptr;
  store_->Crash(kv::MemKvStore::Unsynced::kKept);
  world_.After(absl::Milliseconds(1), "store dies", [this] { Kill(); });
}

void ServiceHost::Start() {
  sim::SimWorld& world = network_.world();
  ++incarnation_;
  // Machines differ in the time of day, in when they were started, and in how long a second is.
  sim::SimRandom random(world.seed(), absl::StrCat("clock of ", name_));
  sim::SimProcess::Options options;
  options.elapsed_offset = random.Between(absl::ZeroDuration(), absl::Hours(1000));
  options.wall_clock_offset = random.Between(-absl::Hours(30), absl::Hours(30));
  if (options_.tells_clock) {
    options.wall_clock_offset = wall_clock_offset_ + options.wall_clock_offset / (30 * 3600 * 4);
    options.boot_id = name_;
  }
  options.elapsed_rate_ppm = static_cast<int32_t>(random.Below(401)) - 200;
  options.incarnation = incarnation_;
  options.perturbations = options_.perturbations;
  process_ = std::make_unique<sim::SimProcess>(world, name_, options);
  store_ = site_.Connect(network_, *process_);
  const std::string instance = InstanceOf(incarnation_);
  kv::KvStore* way = store_.get();
  if (options_.observations != nullptr) {
    observed_ = std::make_unique<StoreObserver>(
        *way, instance, [&world] { return world.Now(); }, options_.observations);
    way = observed_.get();
  }
  if (options_.decorate) decorated_ = options_.decorate(*way, *process_);
  service_ = options_.make(*process_, decorated_ != nullptr ? *decorated_ : *way,
                           {.instance = instance, .dead_instances = DeadInstances()});
}

// Half of the starts are in place: the lock file of the former processes is there.
std::vector<std::string> ServiceHost::DeadInstances() const {
  std::vector<std::string> dead;
  sim::SimRandom random(network_.world().seed(),
                        absl::StrCat("in place ", name_, " ", incarnation_));
  if (!options_.taken_for_dead.empty()) {
    for (int i = 1; i < 10; ++i) dead.push_back(absl::StrCat(options_.taken_for_dead, "#", i));
  }
  if (random.Below(2) == 0) return dead;
  for (uint64_t i = incarnation_ - 1; i > 0; --i) dead.push_back(InstanceOf(i));
  return dead;
}

void ServiceHost::SetWallClockOffset(absl::Duration offset) {
  if (!options_.tells_clock) return;
  if (up()) process_->StepWallClock(offset - wall_clock_offset_);
  wall_clock_offset_ = offset;
}

void ServiceHost::Kill() {
  if (!up()) return;
  process_->Kill();
  died_[InstanceOf(incarnation_)] = network_.world().Now();
  if (options_.on_down) options_.on_down();
  service_ = {};
  decorated_.reset();
  observed_.reset();
  store_.reset();
  process_.reset();
}

void ServiceHost::Stop(std::function<void()> done) {
  if (!up() || !service_.stop) {
    Kill();
    return done();
  }
  const uint64_t incarnation = incarnation_;
  service_.stop([this, incarnation, done = std::move(done)] {
    // Posted, since the service must not be destroyed from within itself.
    network_.world().After(absl::ZeroDuration(), "exit", [this, incarnation, done] {
      if (incarnation != incarnation_ || !up()) return;  // killed in between
      Kill();
      done();
    });
  });
}

namespace {

struct HandlerParts {
  HandlerParts(handler::HandlerOptions options, kv::KvStore& store, Runtime& runtime,
               std::unique_ptr<handler::DeliveryTransport> wire)
      : transport(std::move(wire)), service(std::move(options), store, runtime, *transport) {}
  std::unique_ptr<handler::DeliveryTransport> transport;
  handler::HandlerService service;
};

TokenDoor::Options DoorOptions(sim::SimProcess& process, const std::string& instance,
                               LocalGrants* local) {
  TokenDoor::Options options;
  options.instance = instance + "/door";
  options.local = local;
  options.fresh_key = [&process] {
    std::string key;
    while (key.size() < kTokenKeyBytes) key.push_back(static_cast<char>(process.random().Next()));
    return key;
  };
  return options;
}

struct MasterParts {
  MasterParts(master::MasterService::Options options, kv::KvStore& store, sim::SimProcess& process)
      : service(options, store, process) {}
  master::MasterService service;
  std::unique_ptr<TokenDoor> door;
};

struct MasterOfCellsParts {
  MasterOfCellsParts(const master::MasterOptions& options, std::unique_ptr<kv::KvStore> home_store,
                     sim::SimProcess& process)
      : home(std::move(home_store)), masters(options, *home, nullptr, process) {}
  std::unique_ptr<kv::KvStore> home;
  master::CellMasters masters;
  std::unique_ptr<TokenDoor> door;
  std::unique_ptr<TokenApi> tokens;
};

struct TokenManagerParts {
  TokenManagerParts(const token_manager::TokenManagerOptions& options, kv::KvStore& store,
                    sim::SimProcess& process)
      : service(options, store, process),
        door(DoorOptions(process, options.instance, &service), store, process) {}
  token_manager::TokenManagerService service;
  TokenDoor door;
};

// A service that drains by its method Drain(done).
template <typename Service>
std::function<void(Closure)> DrainOf(Service& service) {
  return [&service](Closure done) { service.Drain(std::move(done)); };
}

}  // namespace

ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const ServiceIdentity& self, MasterApis* apis,
                                TokenEndpoint* door) {
  master::MasterService::Options options;
  options.instance = self.instance;
  auto parts = std::make_shared<MasterParts>(options, store, process);
  apis->schedules = &parts->service.schedules();
  apis->runs = &parts->service.runs();
  apis->events = &parts->service.events();
  apis->policies = &parts->service.policies();
  parts->service.Start();
  if (door != nullptr) {
    parts->door =
        std::make_unique<TokenDoor>(DoorOptions(process, self.instance, nullptr), store, process);
    parts->door->Start();
    door->service = parts->door.get();
  }
  return {parts, DrainOf(parts->service)};
}

ServiceHost::Service MakeMasterOfCells(sim::SimProcess& process, std::unique_ptr<kv::KvStore> home,
                                       kv::KvStore& store, const ServiceIdentity& self,
                                       MasterApis* apis, TokenEndpoint* door) {
  master::MasterOptions options;
  options.instance = self.instance;
  options.fresh_token_key = DoorOptions(process, self.instance, nullptr).fresh_key();
  options.open_store = [&store](const std::string&) -> absl::StatusOr<master::OpenedStore> {
    return master::OpenedStore{.store = std::make_unique<kv::ForwardingKvStore>(store)};
  };
  auto parts = std::make_shared<MasterOfCellsParts>(options, std::move(home), process);
  apis->cells = &parts->masters;
  parts->masters.Start();
  if (door != nullptr) {
    parts->door = std::make_unique<TokenDoor>(DoorOptions(process, self.instance, nullptr),
                                              *parts->home, process);
    parts->door->Start();
    parts->tokens = std::make_unique<master::CellTokens>(parts->masters, *parts->door);
    door->service = parts->tokens.get();
  }
  return {parts, DrainOf(parts->masters)};
}

ServiceHost::Service MakeTokenManager(sim::SimProcess& process, kv::KvStore& store,
                                      const ServiceIdentity& self, TokenEndpoint* door) {
  token_manager::TokenManagerOptions options;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto parts = std::make_shared<TokenManagerParts>(options, store, process);
  parts->service.Start();
  parts->door.Start();
  door->service = &parts->door;
  return {parts, [parts = parts.get()](Closure done) {
            parts->door.Drain([parts, done = std::make_shared<Closure>(std::move(done))] {
              parts->service.Drain([done] { (*done)(); });
            });
          }};
}

ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self) {
  emitter::EmitterOptions options;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto service = std::make_shared<emitter::EmitterService>(options, store, process);
  service->Start();
  return {service, DrainOf(*service)};
}

ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self,
                                 std::unique_ptr<handler::DeliveryTransport> transport,
                                 uint64_t target_events_out_max) {
  handler::HandlerOptions options;
  if (target_events_out_max > 0) options.target_events_out_max = target_events_out_max;
  options.instance = self.instance;
  options.dead_instances = self.dead_instances;
  auto parts =
      std::make_shared<HandlerParts>(std::move(options), store, process, std::move(transport));
  parts->service.Start();
  return {parts, DrainOf(parts->service)};
}

}  // namespace escapement::simulation
