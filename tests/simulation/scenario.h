// One run of the whole platform on virtual time, decided by one seed. Masters, emitters, token
// managers and handlers are processes over one store, with users, a consumer and a plan of faults.
// After the faults comes a calm; then all schedules end, and the checkers judge the history.
//
// The services are the classes that production runs.

#ifndef TESTS_SIMULATION_SCENARIO_H_
#define TESTS_SIMULATION_SCENARIO_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/runtime/perturb.h"
#include "common/sim/sim_process.h"
#include "common/tokens/token_door.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/cast.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/world/hosts.h"
#include "tests/simulation/world/replica_set.h"

namespace escapement::simulation {

struct ScenarioOptions {
  uint64_t seed = 1;
  Cast cast = Cast::kPlain;
  bool faults = true;                         // also a consumer that fails, hangs and answers late
  absl::Duration length = absl::Minutes(10);  // only for casts that last as wished
  bool perturb = false;                       // with perturbation points (common/runtime/perturb.h)
  bool accounts = false;                      // a user asks for accounts (actors/accountant.h)
  // Only in kReplicated: the shared log is once set back to a backup, and repaired later.
  bool log_set_back = false;
  std::optional<WorkHabits> work = {};  // replaces the habits of the cast
  // These plant a fault in the platform. They wrap a service's way to the store, a handler's
  // transport, or a door of tokens. Each may be empty.
  std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)> decorate_store =
      nullptr;
  std::function<std::unique_ptr<handler::DeliveryTransport>(
      std::unique_ptr<handler::DeliveryTransport>, sim::SimProcess&)>
      decorate_transport = nullptr;
  std::function<std::unique_ptr<TokenApi>(TokenApi&)> decorate_door = nullptr;
  // Plants a fault in the store's disk: it reports syncs that it has not done. When the store dies,
  // writes of up to this much time are lost. Zero: no fault.
  absl::Duration unsynced = absl::ZeroDuration();
  ClockFault clock_fault = ClockFault::kNone;  // planted in the store's clock
  // Plants a fault: the instances of handler 0 count as dead for all others.
  bool lock_without_proof = false;
  ReplicaMistakes replica_mistakes = {};  // planted in the replicas of kReplicated
  // Called for every event and note. May be empty.
  std::function<void(absl::Time, absl::string_view process, absl::string_view what)> tracer =
      nullptr;
};

struct ScenarioResult {
  History history;
  // Found by all checkers. Rule "answer": a user got an answer that it did not expect.
  std::vector<Violation> violations;
  uint64_t trace_hash = 0;
  uint64_t events_run = 0;
  int killed = 0;                                   // kills of services and stores
  std::map<std::string, uint64_t> faults;           // kind of fault → how often it happened
  absl::Duration simulated;                         // from the run's beginning to its end
  std::array<uint64_t, kSiteCount> site_hits = {};  // indexed by Site
  std::array<uint64_t, kSiteCount> site_passages = {};
};

ScenarioResult RunScenario(const ScenarioOptions& options);

// The violations, and how to run the seed again. Empty if there are no violations.
std::string Report(const ScenarioOptions& options, const ScenarioResult& result);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_SCENARIO_H_
