// SimRuntime: a world with one process, for unit tests that advance time by hand.
//
//   sim::SimRuntime runtime(/*seed=*/1);
//   Service service(runtime, ...);
//   runtime.RunUntilIdle();                    // runs everything that is due now
//   runtime.AdvanceBy(absl::Seconds(5));       // runs everything that falls due, at its instant

#ifndef COMMON_SIM_SIM_RUNTIME_H_
#define COMMON_SIM_SIM_RUNTIME_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

class SimRuntime : public Runtime {
 public:
  explicit SimRuntime(uint64_t seed) : SimRuntime(seed, SimWorld::Options()) {}
  SimRuntime(uint64_t seed, SimWorld::Options options)
      : world_(seed, options), process_(world_, "test") {}

  Clock& clock() override { return process_.clock(); }
  Random& random() override { return process_.random(); }
  std::shared_ptr<Executor> NewExecutor(std::string name) override {
    return process_.NewExecutor(std::move(name));
  }

  void RunUntilIdle() { world_.RunUntilIdle(); }
  void AdvanceBy(absl::Duration duration) { world_.AdvanceBy(duration); }
  // False if `done` does not become true within `limit`.
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Duration limit) {
    return world_.RunUntil(done, limit);
  }

  SimWorld& world() { return world_; }
  SimProcess& process() { return process_; }

 private:
  SimWorld world_;
  SimProcess process_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_RUNTIME_H_
