// Platforms with a planted fault, each of which a checker must catch. The faults are mistakes that
// a developer could make in a service or in the store's client. They wrap a service's way to the
// store, a handler's transport, or a door of tokens; the services are unchanged.
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
#include "common/tokens/token_door.h"
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
  std::string fault;  // the developer's mistake
  // Violating any of these rules counts as caught.
  std::vector<std::string> rules;
  Cast cast = Cast::kPlain;
  bool faults = true;  // whether the fault plan runs
  StoreDecorator store = nullptr;
  TransportDecorator transport = nullptr;
  DoorDecorator door = nullptr;
  absl::Duration unsynced = absl::ZeroDuration();  // a fault of the store's disk (ScenarioOptions)
  ClockFault clock = ClockFault::kNone;            // a fault of the store's clock
  bool lock_without_proof = false;                 // a fault of proofs of death (ScenarioOptions)
  ReplicaMistakes replica = {};                    // a fault of replicas, in kReplicated
  absl::Duration length = absl::Minutes(10);       // only for casts that last as wished
  bool perturb = false;
  bool log_set_back = false;            // ScenarioOptions
  bool accounts = false;                // ScenarioOptions
  std::optional<WorkHabits> work = {};  // replaces the habits of the cast
  // It must be caught within this many seeds, from first_seed in steps of seed_step.
  int seeds_max = 20;
  uint64_t first_seed = 1;
  uint64_t seed_step = 1;
};

// The mutants of each service, of clients and the store, and all together.
std::vector<Mutant> EmitterMutants();
std::vector<Mutant> HandlerMutants();
std::vector<Mutant> TakeoverMutants();
std::vector<Mutant> ResultMutants();
std::vector<Mutant> TokenManagerMutants();
std::vector<Mutant> MasterMutants();
std::vector<Mutant> ClientMutants();
std::vector<Mutant> ReplicaMutants();
std::vector<Mutant> AllMutants();

struct Catch {
  int seeds = 0;          // seeds run, including the one that caught it
  std::string rule = {};  // the rule that caught it; empty if none did
  std::string what = {};  // first violation of that rule
  // Rules that were broken although the mutant does not name them.
  std::vector<std::string> others = {};
};

// Runs the mutant's seeds, at most `seeds_max`, until one of its rules is broken.
Catch Hunt(const Mutant& mutant, int seeds_max);

// "mutant NAME caught by RULE after N seeds".
std::string Describe(const Mutant& mutant, const Catch& caught);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_MUTANTS_MUTANTS_H_
