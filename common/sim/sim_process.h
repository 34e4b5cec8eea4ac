// SimProcess: one incarnation of a process in a SimWorld, and the Runtime of its services.
//
// To restart it, Kill() it and make a new SimProcess of the same name. Destroy services after
// Kill(): then nothing that they post or send in their destructors has an effect, as after kill -9.
//
// Threads: the world's.

#ifndef COMMON_SIM_SIM_PROCESS_H_
#define COMMON_SIM_SIM_PROCESS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

class SimProcess : public Runtime {
 public:
  struct Options {
    absl::Duration elapsed_offset = absl::ZeroDuration();     // Elapsed() minus the world's
    absl::Duration wall_clock_offset = absl::ZeroDuration();  // WallNow() minus true time
    // Elapsed() runs faster than true time by this, in millionths; may be negative.
    int32_t elapsed_rate_ppm = 0;
    std::string boot_id = {};                // BootId()
    bool wall_synchronised = false;          // WallIsSynchronised()
    uint64_t incarnation = 1;                // gives each incarnation its own random stream
    Perturbations* perturbations = nullptr;  // must outlive the process
  };

  SimProcess(SimWorld& world, std::string name) : SimProcess(world, std::move(name), Options()) {}
  SimProcess(SimWorld& world, std::string name, Options options);
  ~SimProcess() override;  // kills the process
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  Clock& clock() override { return clock_; }
  SimRandom& random() override { return random_; }
  std::shared_ptr<Executor> NewExecutor(std::string name) override;
  Perturbations* perturbations() override { return perturbations_; }

  // Its executors drop all closures and accept no more. Idempotent.
  void Kill();
  bool alive() const { return !state_->dead; }

  // Closures due in the next `duration` run at its end, in order, while the world's time goes on.
  void Pause(absl::Duration duration);

  // Sets the wall clock forward or back.
  void StepWallClock(absl::Duration by) { clock_.wall_offset += by; }
  // From now on the kernel reports that the wall clock is synchronised, or that it is not.
  void SetWallSynchronised(bool synchronised) { clock_.wall_synchronised = synchronised; }

  SimWorld& world() { return world_; }
  const std::string& name() const { return state_->name; }
  const std::shared_ptr<ProcessState>& state() const { return state_; }

 private:
  class SimExecutor;
  struct SimClock : public Clock {
    SimClock(SimWorld& world, const Options& options)
        : world(world),
          offset(options.elapsed_offset),
          wall_offset(options.wall_clock_offset),
          boot_id(options.boot_id),
          wall_synchronised(options.wall_synchronised),
          rate_ppm(options.elapsed_rate_ppm) {}
    absl::Duration Elapsed() const override { return offset + Local(world.Elapsed()); }
    absl::Time WallNow() const override { return world.Now() + wall_offset; }
    bool WallIsSynchronised() const override { return wall_synchronised; }
    std::string BootId() const override { return boot_id; }
    // The time that this process has counted when the world's is `elapsed`. Uses whole nanoseconds
    // in parts that never overflow, because each event reads a clock or two.
    absl::Duration Local(absl::Duration elapsed) const {
      const int64_t nanos = absl::ToInt64Nanoseconds(elapsed);
      return absl::Nanoseconds(nanos + nanos / kMillion * rate_ppm +
                               nanos % kMillion * rate_ppm / kMillion);
    }
    // The first instant of the world at which the process has counted `duration` more than now.
    absl::Duration WorldAfter(absl::Duration duration) const;

    static constexpr int64_t kMillion = 1'000'000;
    SimWorld& world;
    absl::Duration offset;
    absl::Duration wall_offset;
    std::string boot_id;
    bool wall_synchronised;
    int64_t rate_ppm;
  };

  SimWorld& world_;
  const std::shared_ptr<ProcessState> state_;
  SimClock clock_;
  SimRandom random_;
  Perturbations* const perturbations_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_PROCESS_H_
