// One run of the whole platform on virtual time, decided by one seed: masters, emitters, token
// managers and handlers in processes of their own over one store, users, a consumer, and a plan of
// faults; then calm, the end of all schedules, and the judgement.
//
// The services are the very classes that production runs.

#ifndef TESTS_SIMULATION_SCENARIO_H_
#define TESTS_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/sim/sim_process.h"
#include "services/handler/delivery_transport.h"
#include "tests/simulation/history.h"

namespace escapement::simulation {

// Who takes part.
enum class Cast {
  kPlain,      // schedules whose events go out as they fall due, and one-off events
  kThrottled,  // token managers, policies, and schedules of which most are throttled
  kBatches,    // the same with 20,000 events in four runs, and with many kills
  kClocks,     // as kPlain, while the store's wall clock is set back and forth
  kTimes,      // as kPlain; schedules of all kinds with all policies, and times without emitters
};

struct ScenarioOptions {
  uint64_t seed = 1;
  Cast cast = Cast::kPlain;
  bool faults = true;  // also a consumer that fails, hangs and dawdles
  // Plant a fault in the platform: wrap a service's way to the store, or a handler's transport. May
  // be empty.
  std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)> decorate_store =
      nullptr;
  std::function<std::unique_ptr<handler::DeliveryTransport>(
      std::unique_ptr<handler::DeliveryTransport>, sim::SimProcess&)>
      decorate_transport = nullptr;
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
  int killed = 0;  // services and stores
};

ScenarioResult RunScenario(const ScenarioOptions& options);

// The violations and how to run the seed again; empty if there are none.
std::string Report(const ScenarioOptions& options, const ScenarioResult& result);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_SCENARIO_H_
