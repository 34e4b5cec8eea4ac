#include "common/sim/sim_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::sim {

namespace {

constexpr uint32_t kOnPerMillion = 250'000;
constexpr std::array<uint32_t, 3> kChances = {10'000, 100'000, 500'000};

}  // namespace

SimPerturbations::SimPerturbations(SimWorld& world)
    : world_(world), random_(world.seed(), "perturbations") {
  for (size_t i = 0; i < kSiteCount; ++i) {
    SimRandom lot(world.seed(), kSites[i].name);
    if (!lot.Chance(kOnPerMillion)) continue;
    chances_[i] = std::min(kChances[lot.Below(kChances.size())], kSites[i].percent_max * 10'000);
  }
}

void SimPerturbations::Calm() {
  for (size_t i = 0; i < kSiteCount; ++i) {
    if (kSites[i].when == SiteTraits::When::kWhileFaults) chances_[i] = 0;
  }
}

bool SimPerturbations::Hits(Site site) {
  const size_t i = Index(site);
  ++passages_[i];
  if (chances_[i] == 0 || !random_.Chance(chances_[i])) return false;
  ++hits_[i];
  world_.Note(kSites[i].name);
  return true;
}

class SimProcess::SimExecutor : public Executor {
 public:
  SimExecutor(SimWorld& world, std::shared_ptr<ProcessState> process, SimClock clock,
              std::string name)
      : world_(world),
        process_(std::move(process)),
        clock_(std::move(clock)),
        line_(world.NewLine()),
        post_label_(world.Interned(name)),
        timer_label_(world.Interned(absl::StrCat(name, " timer"))),
        random_(world.seed() ^ line_, name) {}
  ~SimExecutor() override { Stop(); }

  void Post(Closure closure) override {
    if (stopped_ || process_->dead) return;
    // Closures do not overtake one another.
    const absl::Duration latency =
        random_.Between(absl::ZeroDuration(), world_.options().post_latency_max);
    next_post_ = std::max(next_post_, world_.Elapsed() + latency);
    world_.At(next_post_, process_, line_, post_label_, std::move(closure));
  }

  TimerId PostAfter(absl::Duration delay, Closure closure) override {
    if (stopped_ || process_->dead) return dropped_timer_;
    return world_.At(clock_.WorldAfter(delay), process_, line_, timer_label_, std::move(closure));
  }

  bool Cancel(TimerId timer) override { return world_.Forget(timer); }

  void Stop() override {
    if (std::exchange(stopped_, true) || process_->dead) return;
    world_.ForgetIf([this](const ProcessState*, uint64_t line) { return line == line_; });
  }

 private:
  static constexpr TimerId dropped_timer_ = TimerId{1} << 63;

  SimWorld& world_;
  const std::shared_ptr<ProcessState> process_;
  const SimClock clock_;  // its elapsed part is fixed when the process is made
  const uint64_t line_;
  const absl::string_view post_label_;
  const absl::string_view timer_label_;
  SimRandom random_;
  bool stopped_ = false;
  absl::Duration next_post_;
};

absl::Duration SimProcess::SimClock::WorldAfter(absl::Duration duration) const {
  const absl::Duration now = world.Elapsed();
  if (duration <= absl::ZeroDuration()) return now;
  if (rate_ppm == 0 || duration > absl::Hours(24 * 365)) return now + duration;
  const absl::Duration target = Local(now) + duration;
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  const int64_t rate = kMillion + rate_ppm;
  absl::Duration when =
      now + absl::Nanoseconds(nanos - nanos / rate * rate_ppm - nanos % rate * rate_ppm / rate - 1);
  while (Local(when) < target) when += absl::Nanoseconds(1);
  return when;
}

SimProcess::SimProcess(SimWorld& world, std::string name, Options options)
    : world_(world),
      state_(std::make_shared<ProcessState>()),
      clock_(world, options),
      random_(world.seed(), absl::StrCat(name, "#", options.incarnation)),
      perturbations_(options.perturbations) {
  state_->name = std::move(name);
  world_.Register(state_);
}

SimProcess::~SimProcess() { Kill(); }

std::shared_ptr<Executor> SimProcess::NewExecutor(std::string name) {
  return std::make_shared<SimExecutor>(world_, state_, clock_, std::move(name));
}

void SimProcess::Kill() {
  if (std::exchange(state_->dead, true)) return;
  world_.ForgetIf(
      [this](const ProcessState* process, uint64_t) { return process == state_.get(); });
}

void SimProcess::Pause(absl::Duration duration) {
  state_->paused_until = std::max(state_->paused_until, world_.Elapsed() + duration);
}

}  // namespace escapement::sim
