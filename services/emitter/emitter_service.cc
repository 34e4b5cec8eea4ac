#include "services/emitter/emitter_service.h"

#include <atomic>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/engine/clock_hold.h"
#include "common/kv/engine/store_beat.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/runtime/perturb.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_table.h"
#include "services/emitter/emission/emission_loop.h"
#include "services/emitter/launches/launch_loop.h"
#include "services/emitter/launches/launch_metrics.h"
#include "services/emitter/metrics.h"
#include "services/emitter/runs/run_closer.h"

namespace escapement::emitter {
namespace {

constexpr absl::Duration kRetryStart = absl::Seconds(1);  // before the store has answered

}  // namespace

class EmitterService::Core {
 public:
  Core(Options options, kv::KvStore& store, Runtime& runtime)
      : options_(std::move(options)),
        runtime_(runtime),
        executor_(runtime.NewExecutor("emitter")),
        own_metrics_(options_.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
        metrics_(options_.metrics == nullptr ? *own_metrics_ : *options_.metrics),
        launch_metrics_(options_.metrics == nullptr ? *own_metrics_ : *options_.metrics),
        client_(store, runtime, ClientOptions()) {}

  void Begin();
  void Drain(Closure done);
  // Called by the service's destructor, not on the executor.
  void Stop() {
    executor_->Stop();
    StopLoops();
  }

  Executor& executor() { return *executor_; }
  bool ready() const { return ready_.load(std::memory_order_relaxed); }
  std::string NotReadyReason() const ABSL_LOCKS_EXCLUDED(hold_mu_) {
    absl::MutexLock lock(&hold_mu_);
    if (!hold_.has_value()) return {};
    return kv::NotReadyReason({runtime_.clock().Elapsed() - hold_->since, hold_->disagreement});
  }

 private:
  kv::KvClient::Options ClientOptions() {
    kv::KvClient::Options options;
    options.name = absl::StrCat("emitter ", options_.instance);
    options.session_executor = executor_;
    options.on_session_lost = [this] {
      if (keeper_ != nullptr) keeper_->DropAll();
    };
    return options;
  }
  void MakeLoops(const kv::Layout& layout, std::shared_ptr<const tzdata::MovedZones> moved);
  std::shared_ptr<const tzdata::MovedZones> MovedBy(const std::optional<std::string>& tz_switch);
  void OnClockHold(std::optional<absl::Duration> disagreement) ABSL_LOCKS_EXCLUDED(hold_mu_);
  void StopLoops();
  void StepLater(absl::Duration since_step);

  const Options options_;
  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;
  const std::unique_ptr<Metrics> own_metrics_;
  EmitterMetrics metrics_;
  LaunchMetrics launch_metrics_;
  std::atomic<bool> ready_{false};
  bool draining_ = false;
  struct Hold {
    absl::Duration since;  // by Elapsed
    absl::Duration disagreement;
  };
  mutable absl::Mutex hold_mu_;
  std::optional<Hold> hold_ ABSL_GUARDED_BY(hold_mu_);
  kv::KvClient client_;
  std::shared_ptr<EmissionLoop> loop_;
  std::shared_ptr<RunCloser> closer_;
  std::shared_ptr<LaunchLoop> launcher_;
  std::unique_ptr<lease::LeaseKeeper> keeper_;
};

void EmitterService::Core::Begin() {
  client_.MultiGet({{kv::ColumnFamily::kMeta, std::string(kv::kLayoutKey)},
                    {kv::ColumnFamily::kMeta, std::string(tzdata::kSwitchKey)}},
                   executor_, [this](absl::StatusOr<kv::GetResult> result) {
                     if (draining_) return;
                     if (result.ok() && result->values[0].has_value()) {
                       const absl::StatusOr<kv::Layout> layout =
                           kv::DecodeLayout(*result->values[0]);
                       if (layout.ok()) return MakeLoops(*layout, MovedBy(result->values[1]));
                     }
                     executor_->PostAfter(kRetryStart, [this] { Begin(); });
                   });
}

std::shared_ptr<const tzdata::MovedZones> EmitterService::Core::MovedBy(
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

void EmitterService::Core::MakeLoops(const kv::Layout& layout,
                                     std::shared_ptr<const tzdata::MovedZones> moved) {
  const PartitionLeases leases = {
      .valid = [this](uint32_t partition) { return keeper_->Valid(partition); },
      .fence = [this](uint32_t partition) { return keeper_->Fence(partition); }};
  loop_ = std::make_shared<EmissionLoop>(
      client_, executor_, metrics_,
      EmissionLoop::Options{.layout = layout,
                            .ahead = options_.ahead,
                            .leases = leases,
                            .tz_rev = options_.tz_rev,
                            .moved = std::move(moved),
                            .on_clock_hold = [this](auto ahead) { OnClockHold(ahead); }});
  closer_ = std::make_shared<RunCloser>(client_, executor_, metrics_,
                                        RunCloser::Options{.layout = layout, .leases = leases});
  const bool few = Perturb(runtime_, Site::kLauncherMemorySmall);
  launcher_ = std::make_shared<LaunchLoop>(
      client_, executor_, launch_metrics_,
      LaunchLoop::Options{.layout = layout,
                          .leases = leases,
                          .tz_rev = options_.tz_rev,
                          .launches_max = few ? size_t{8} : options_.launches_max});
  lease::LeaseKeeper::Callbacks callbacks;
  callbacks.on_acquired = [this](const lease::HeldLease& lease) {
    loop_->AddPartition(lease.index);
    closer_->AddPartition(lease.index);
    launcher_->AddPartition(lease.index);
  };
  callbacks.on_lost = [this](uint32_t index) {
    loop_->DropPartition(index);
    closer_->DropPartition(index);
    launcher_->DropPartition(index);
  };
  keeper_ = std::make_unique<lease::LeaseKeeper>(
      client_, runtime_, executor_,
      lease::LeaseKeeper::Options{.kind = "partition",
                                  .count = layout.partitions,
                                  .instance = options_.instance,
                                  .ttl = options_.lease_ttl,
                                  .renew_every = options_.lease_renew_every},
      std::move(callbacks));
  closer_->Start();
  launcher_->Start();
  keeper_->Start();
  ready_.store(true, std::memory_order_relaxed);
  StepLater(options_.step_every);
}

void EmitterService::Core::OnClockHold(std::optional<absl::Duration> disagreement) {
  const absl::Duration now = runtime_.clock().Elapsed();
  absl::MutexLock lock(&hold_mu_);
  if (!disagreement.has_value()) return hold_.reset();
  hold_ = Hold{hold_.has_value() ? hold_->since : now, *disagreement};
}

void EmitterService::Core::StepLater(absl::Duration since_step) {
  executor_->PostAfter(kv::UntilBeat(client_.NowLow(), options_.step_every, since_step), [this] {
    if (draining_) return;
    loop_->Step();
    StepLater(absl::ZeroDuration());
  });
}

void EmitterService::Core::Drain(Closure done) {
  draining_ = true;
  ready_.store(false, std::memory_order_relaxed);
  StopLoops();
  if (keeper_ == nullptr) return done();
  keeper_->Release(std::move(done));
}

void EmitterService::Core::StopLoops() {
  if (loop_ != nullptr) loop_->Stop();
  if (closer_ != nullptr) closer_->Stop();
  if (launcher_ != nullptr) launcher_->Stop();
}

EmitterService::EmitterService(Options options, kv::KvStore& store, Runtime& runtime)
    : core_(std::make_shared<Core>(std::move(options), store, runtime)) {}

EmitterService::~EmitterService() { core_->Stop(); }

void EmitterService::Start() {
  core_->executor().Post([core = core_.get()] { core->Begin(); });
}

void EmitterService::Drain(Closure done) {
  core_->executor().Post(
      [core = core_.get(), done = std::move(done)]() mutable { core->Drain(std::move(done)); });
}

bool EmitterService::Ready() const { return core_->ready() && NotReadyReason().empty(); }

std::string EmitterService::NotReadyReason() const { return core_->NotReadyReason(); }

}  // namespace escapement::emitter
