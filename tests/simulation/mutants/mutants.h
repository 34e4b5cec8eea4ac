// Platforms with a planted fault, each of which a checker must catch: such as a developer could
// make, in each of the services and in the store's client. They wrap a service's way to the store,
// a handler's transport, or a door of tokens; the services are unchanged.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_MUTANTS_MUTANTS_H_
#define TESTS_SIMULATION_MUTANTS_MUTANTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/sim/sim_process.h"
#include "common/tokens/token_api.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/scenario.h"

namespace escapement::simulation {

using StoreDecorator = std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)>;
using TransportDecorator = std::function<std::unique_ptr<handler::DeliveryTransport>(
    std::unique_ptr<handler::DeliveryTransport>, sim::SimProcess&)>;

using DoorDecorator = std::function<std::unique_ptr<TokenApi>(TokenApi&)>;

struct Mutant {
  std::string name;   // [a-z_]+; begins with the service
  std::string fault;  // what the developer did wrong
  // Of a violation of one of them it counts as caught.
  std::vector<std::string> rules;
  Cast cast = Cast::kPlain;
  bool faults = true;  // of the fault plan
  StoreDecorator store = nullptr;
  TransportDecorator transport = nullptr;
  DoorDecorator door = nullptr;
  absl::Duration unsynced = absl::ZeroDuration();  // of the store's disk (ScenarioOptions)
  ClockFault clock = ClockFault::kNone;            // of the store
  bool perturb = false;
  std::optional<WorkHabits> work = {};  // instead of the cast's
  // It is caught within so many seeds: first_seed, then each seed_step later.
  int seeds_max = 20;
  uint64_t first_seed = 1;
  uint64_t seed_step = 1;
};

// Of each service, and all of them.
std::vector<Mutant> EmitterMutants();
std::vector<Mutant> HandlerMutants();
std::vector<Mutant> TokenManagerMutants();
std::vector<Mutant> MasterMutants();
std::vector<Mutant> ClientMutants();
std::vector<Mutant> AllMutants();

struct Catch {
  int seeds = 0;          // run, the one that caught it included
  std::string rule = {};  // empty: it was not caught
  std::string what = {};  // the first violation of that rule
  // Rules that were broken though the mutant does not name them.
  std::vector<std::string> others = {};
};

// Runs the mutant's seeds, at most `seeds_max`, until one of its rules is broken.
Catch Hunt(const Mutant& mutant, int seeds_max);

// "mutant NAME caught by RULE after N seeds".
std::string Describe(const Mutant& mutant, const Catch& caught);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_MUTANTS_MUTANTS_H_
