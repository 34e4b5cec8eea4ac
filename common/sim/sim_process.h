// SimProcess: one incarnation of a process in a SimWorld. SimPerturbations: decides which
// perturbation points hit in a world.

#ifndef COMMON_SIM_SIM_PROCESS_H_
#define COMMON_SIM_SIM_PROCESS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/runtime/perturb.h"
#include "common/runtime/runtime.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

// SimPerturbations: decides by a world's seed which perturbation points (common/runtime/perturb.h)
// are on, and when they hit.
//
// About a quarter of the sites is on in a world, the same ones for all its processes. Each such
// site has its own chance per passage: 1 %, 10 % or 50 %, or the site's maximum if that is less.
// The choice depends on the seed and the site's name, so a new site does not change the others.
// Hits are folded into the world's trace.
//
// All processes of a world share one object, which must outlive them.
//
// Threads: the world's.
class SimPerturbations final : public Perturbations {
 public:
  explicit SimPerturbations(SimWorld& world);

  bool Hits(Site site) override;

  // The part of the run without faults begins: sites that are kWhileFaults no longer hit.
  void Calm();

  // Sets a site's chance, in millionths, in place of the seed's choice.
  void Set(Site site, uint32_t per_million) { chances_[Index(site)] = per_million; }
  uint32_t chance(Site site) const { return chances_[Index(site)]; }

  // Hits and passages by site since the world began. A site that is off is still passed.
  const std::array<uint64_t, kSiteCount>& hits() const { return hits_; }
  const std::array<uint64_t, kSiteCount>& passages() const { return passages_; }

 private:
  static size_t Index(Site site) { return static_cast<size_t>(site); }

  SimWorld& world_;
  SimRandom random_;
  std::array<uint32_t, kSiteCount> chances_ = {};  // millionths
  std::array<uint64_t, kSiteCount> hits_ = {};
  std::array<uint64_t, kSiteCount> passages_ = {};
};

// SimProcess: one incarnation of a process in a SimWorld, and the Runtime of its services.
//
// To restart it, Kill() it and make a new SimProcess of the same name. Destroy services after
// Kill(): then nothing that they post or send in their destructors has an effect, as after kill -9.
//
// Threads: the world's.
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
