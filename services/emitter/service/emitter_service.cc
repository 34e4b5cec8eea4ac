#include "services/emitter/service/emitter_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/store_beat.h"
#include "common/kv/engine/store_clock.h"
#include "common/process/sharded_service.h"
#include "common/runtime/perturb.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_table.h"
#include "services/emitter/base/metrics.h"
#include "services/emitter/emission/emission_loop.h"
#include "services/emitter/launches/launch_loop.h"
#include "services/emitter/runs/run_closer.h"

ABSL_FLAG(absl::Duration, emit_ahead, absl::Seconds(5),
          "how long before their due time events are written to the queue");

namespace escapement::emitter {

class EmitterService::Impl final : public ShardedService {
 public:
  Impl(EmitterOptions options, kv::KvStore& store, Runtime& runtime)
      : ShardedService({.executor = "emitter",
                        .session_name = "emitter",
                        .instance = options.instance,
                        .dead_instances = options.dead_instances,
                        .lease_kind = "partition",
                        .lease_ttl = options.lease_ttl,
                        .lease_renew_every = options.lease_renew_every,
                        .metrics = options.metrics,
                        .meta_keys = {std::string(tzdata::kSwitchKey)}},
                       store, runtime),
        options_(std::move(options)),
        metrics_(registry()),
        launch_metrics_(registry()) {}

  // Stops the executor and the loops. Called by the service's destructor, not on the executor.
  void StopAll() {
    Stop();
    StopLoops();
  }

  std::string NotReadyReason() const ABSL_LOCKS_EXCLUDED(hold_mu_) {
    absl::MutexLock lock(&hold_mu_);
    if (!hold_.has_value()) return {};
    return kv::NotReadyReason({runtime().clock().Elapsed() - hold_->since, hold_->disagreement});
  }

 private:
  // ShardedService
  void OnLayout(const kv::Layout& layout, std::vector<std::optional<std::string>> values) override;
  void OnAcquired(const lease::HeldLease& lease) override;
  void OnLost(uint32_t index) override;
  void Step() override;
  void OnDrain() override;

  std::shared_ptr<const tzdata::MovedZones> MovedBy(const std::optional<std::string>& tz_switch);
  void OnClockHold(std::optional<absl::Duration> disagreement) ABSL_LOCKS_EXCLUDED(hold_mu_);
  void StopLoops();
  void StepLater(absl::Duration since_step);

  const EmitterOptions options_;
  EmitterMetrics metrics_;
  LaunchMetrics launch_metrics_;
  struct Hold {
    absl::Duration since;  // Clock::Elapsed
    absl::Duration disagreement;
  };
  mutable absl::Mutex hold_mu_;
  std::optional<Hold> hold_ ABSL_GUARDED_BY(hold_mu_);
  std::shared_ptr<EmissionLoop> loop_;
  std::shared_ptr<RunCloser> closer_;
  std::shared_ptr<LaunchLoop> launcher_;
};

std::shared_ptr<const tzdata::MovedZones> EmitterService::Impl::MovedBy(
    const std::optional<std::string>& tz_switch) {
  if (options_.tz_rev.empty() || !tz_switch) return nullptr;
  const std::optional<tzdata::Switch> change = tzdata::DecodeSwitch(*tz_switch);
  if (!change) {
    metrics_.records_broken.Increment();
    return nullptr;
  }
  if (change->new_revision != options_.tz_rev) return nullptr;
  auto moved = std::make_shared<const tzdata::MovedZones>(*change);
  return moved->empty() ? nullptr : moved;
}

void EmitterService::Impl::OnLayout(const kv::Layout& layout,
                                    std::vector<std::optional<std::string>> values) {
  const PartitionLeases leases = {
      .valid = [this](uint32_t partition) { return LeaseValid(partition); },
      .fence = [this](uint32_t partition) { return Fence(partition); }};
  loop_ = std::make_shared<EmissionLoop>(
      client(), executor(), metrics_,
      EmissionLoop::Options{.layout = layout,
                            .ahead = options_.ahead,
                            .leases = leases,
                            .tz_rev = options_.tz_rev,
                            .moved = MovedBy(values.front()),
                            .on_clock_hold = [this](auto ahead) { OnClockHold(ahead); }});
  closer_ = std::make_shared<RunCloser>(client(), executor(), metrics_,
                                        RunCloser::Options{.layout = layout, .leases = leases});
  const bool few = Perturb(runtime(), Site::kLauncherMemorySmall);
  launcher_ = std::make_shared<LaunchLoop>(
      client(), executor(), launch_metrics_,
      LaunchLoop::Options{.layout = layout,
                          .leases = leases,
                          .tz_rev = options_.tz_rev,
                          .launches_max = few ? size_t{8} : options_.launches_max});
  closer_->Start();
  launcher_->Start();
  StartLeases(layout.partitions);
  StepLater(options_.step_every);
}

void EmitterService::Impl::OnAcquired(const lease::HeldLease& lease) {
  loop_->AddPartition(lease.index);
  closer_->AddPartition(lease.index);
  launcher_->AddPartition(lease.index);
}

void EmitterService::Impl::OnLost(uint32_t index) {
  loop_->DropPartition(index);
  closer_->DropPartition(index);
  launcher_->DropPartition(index);
}

void EmitterService::Impl::OnClockHold(std::optional<absl::Duration> disagreement) {
  const absl::Duration now = runtime().clock().Elapsed();
  absl::MutexLock lock(&hold_mu_);
  if (!disagreement.has_value()) return hold_.reset();
  hold_ = Hold{hold_.has_value() ? hold_->since : now, *disagreement};
}

void EmitterService::Impl::StepLater(absl::Duration since_step) {
  const absl::Duration delay = kv::UntilBeat(client().NowLow(), options_.step_every, since_step);
  PlanStep(runtime().clock().Elapsed() + delay, delay);
}

void EmitterService::Impl::Step() {
  if (draining()) return;
  loop_->Step();
  closer_->JudgeWindows();
  StepLater(absl::ZeroDuration());
}

void EmitterService::Impl::OnDrain() {
  SetReady(false);
  StopLoops();
  ReleaseLeases();
}

void EmitterService::Impl::StopLoops() {
  if (loop_ != nullptr) loop_->Stop();
  if (closer_ != nullptr) closer_->Stop();
  if (launcher_ != nullptr) launcher_->Stop();
}

EmitterService::EmitterService(EmitterOptions options, kv::KvStore& store, Runtime& runtime)
    : impl_(std::make_unique<Impl>(std::move(options), store, runtime)) {}

EmitterService::~EmitterService() { impl_->StopAll(); }

void EmitterService::Start() { impl_->Start(); }

void EmitterService::Drain(Closure done) { impl_->Drain(std::move(done)); }

bool EmitterService::Ready() const { return impl_->Ready() && NotReadyReason().empty(); }
ShardedService& EmitterService::sharded() { return *impl_; }

std::string EmitterService::NotReadyReason() const { return impl_->NotReadyReason(); }

namespace {

EmitterOptions OptionsFromFlags(const ServiceContext& context) {
  EmitterOptions options;
  options.instance = context.instance;
  options.dead_instances = context.dead_instances;
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  options.ahead = absl::GetFlag(FLAGS_emit_ahead);
  options.tz_rev = tzdata::ThisMachine().revision;
  options.metrics = &context.metrics;
  return options;
}

}  // namespace

void ValidateEmitterFlags(std::vector<std::string>& errors) {
  const absl::Duration ahead = absl::GetFlag(FLAGS_emit_ahead);
  if (ahead < absl::Seconds(2) || ahead > absl::Minutes(5))
    errors.emplace_back("--emit_ahead: must be from 2s to 5m");
}

HostedEmitter::HostedEmitter(const ServiceContext& context, kv::KvStore& store)
    : service_(OptionsFromFlags(context), store, context.runtime) {}

absl::Status HostedEmitter::Start() {
  service_.Start();
  return absl::OkStatus();
}

}  // namespace escapement::emitter
