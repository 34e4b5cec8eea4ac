// One run of the whole platform on virtual time, decided by one seed: masters, emitters, token
// managers and handlers in processes of their own over one store, users, a consumer, and a plan of
// faults; then calm, the end of all schedules, and the judgement.
//
// The services are the very classes that production runs.

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
#include "common/tokens/token_api.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/worker.h"
#include "tests/simulation/cast.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/world/hosts.h"

namespace escapement::simulation {

struct ScenarioOptions {
  uint64_t seed = 1;
  Cast cast = Cast::kPlain;
  bool faults = true;                         // also a consumer that fails, hangs and dawdles
  absl::Duration length = absl::Minutes(10);  // of kWhole and kMixed
  bool perturb = false;                       // with perturbation points (common/runtime/perturb.h)
  std::optional<WorkHabits> work = {};        // instead of the cast's
  // Plant a fault in the platform: wrap a service's way to the store, a handler's transport, or a
  // door of tokens. May be empty.
  std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)> decorate_store =
      nullptr;
  std::function<std::unique_ptr<handler::DeliveryTransport>(
      std::unique_ptr<handler::DeliveryTransport>, sim::SimProcess&)>
      decorate_transport = nullptr;
  std::function<std::unique_ptr<TokenApi>(TokenApi&)> decorate_door = nullptr;
  // Plant a fault in the store's disk: it says that it has synced, and when the store dies up to so
  // much of the time before it is gone. Zero: none.
  absl::Duration unsynced = absl::ZeroDuration();
  ClockFault clock_fault = ClockFault::kNone;  // planted in the store's clock
  // Told of every event and note. May be empty.
  std::function<void(absl::Time, absl::string_view process, absl::string_view what)> tracer =
      nullptr;
};

struct ScenarioResult {
  History history;
  std::vector<Violation>
      violations;  // of all checkers, and answers that a user had no reason to expect ("answer")
  uint64_t trace_hash = 0;
  uint64_t events_run = 0;
  int killed = 0;                                   // services and stores
  std::map<std::string, uint64_t> faults;           // how often what went wrong
  absl::Duration simulated;                         // from the beginning to the end
  std::array<uint64_t, kSiteCount> site_hits = {};  // by Site
  std::array<uint64_t, kSiteCount> site_passages = {};
};

ScenarioResult RunScenario(const ScenarioOptions& options);

// The violations and how to run the seed again; empty if there are none.
std::string Report(const ScenarioOptions& options, const ScenarioResult& result);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_SCENARIO_H_
