#include "services/handler/handler_service.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/tokens/token_handle.h"
#include "services/handler/delivery/send_loop.h"
#include "services/handler/retention/retention_loop.h"
#include "services/handler/shard.h"
#include "services/handler/step_gap.h"

namespace escapement::handler {
namespace {

// Without anything planned all shards are stepped so often: horizons move, targets turn slow.
constexpr absl::Duration kIdleStep = absl::Seconds(1);
constexpr absl::Duration kBlockedStep = absl::Milliseconds(100);
// What falls due while a step is under way is sent within it, as much as has come in this time
// together.
constexpr absl::Duration kSendGap = absl::Milliseconds(1);

}  // namespace

class HandlerService::Core : public std::enable_shared_from_this<HandlerService::Core> {
 public:
  Core(HandlerOptions options, kv::KvStore& store, Runtime& runtime, DeliveryTransport& transport)
      : options_(std::move(options)),
        runtime_(runtime),
        executor_(runtime.NewExecutor("handler")),
        own_metrics_(options_.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
        metrics_(options_.metrics == nullptr ? *own_metrics_ : *options_.metrics),
        client_(store, runtime, ClientOptions()),
        cache_(client_, executor_, [this] { OnFetched(); }),
        lead_(options_),
        sends_(options_, lead_, runtime, executor_, transport, metrics_, [this] { Wake(); }),
        shared_{.options = options_,
                .client = client_,
                .runtime = runtime,
                .executor = executor_,
                .cache = cache_,
                .lead = lead_,
                .sends = sends_,
                .metrics = metrics_,
                .lease_valid =
                    [this](uint32_t shard) { return keeper_ != nullptr && keeper_->Valid(shard); },
                .wake = [this] { Wake(); }},
        retention_(shared_) {}

  void Begin();
  void Drain(Closure done);
  // Called by the service's destructor, not on the executor.
  void Stop() { executor_->Stop(); }

  Executor& executor() { return *executor_; }
  const HandlerMetrics& metrics() const { return metrics_; }
  bool ready() const { return ready_.load(std::memory_order_relaxed); }

 private:
  kv::KvClient::Options ClientOptions() {
    kv::KvClient::Options options;
    options.name = "handler " + options_.instance;
    options.session_executor = executor_;
    options.on_session_lost = [this] { OnSessionLost(); };
    return options;
  }
  void LoadMint();
  void MakeKeeper(uint32_t shards);
  void OnAcquired(const lease::HeldLease& lease);
  void OnSessionLost();
  void OnFetched();
  void Wake();
  void Step();
  void Sweep(absl::Time now);
  void PlanNextStep(absl::Time now, absl::Duration begun);
  void StepAt(absl::Duration at, absl::Duration elapsed);
  void ReleaseIfDrained();

  const HandlerOptions options_;
  Runtime& runtime_;
  std::shared_ptr<Executor> executor_;
  const std::unique_ptr<Metrics> own_metrics_;  // if the options name none
  HandlerMetrics metrics_;
  std::atomic<bool> ready_{false};
  kv::KvClient client_;
  RecordCache cache_;
  ClaimLead lead_;
  SendLoop sends_;
  HandlerCore shared_;
  RetentionLoop retention_;
  std::unique_ptr<lease::LeaseKeeper> keeper_;
  std::map<uint32_t, std::unique_ptr<Shard>> shards_;
  bool step_posted_ = false;
  absl::Duration next_step_ = -absl::InfiniteDuration();  // Clock::Elapsed: not before
  Executor::TimerId timer_ = 0;
  absl::Duration timer_at_ = absl::InfiniteDuration();  // Clock::Elapsed
  Closure drained_;                                     // set by Drain
  bool releasing_ = false;  // everything has drained, and the leases are being released
};

void HandlerService::Core::Begin() {
  client_.MultiGet({{.cf = kv::ColumnFamily::kMeta, .key = std::string(kv::kLayoutKey)}}, executor_,
                   [this](absl::StatusOr<kv::GetResult> result) {
                     if (drained_) return;
                     if (result.ok() && result->values[0].has_value()) {
                       const absl::StatusOr<kv::Layout> layout =
                           kv::DecodeLayout(*result->values[0]);
                       if (layout.ok()) {
                         shared_.layout = *layout;
                         return LoadMint();
                       }
                     }
                     executor_->PostAfter(kIdleStep, [this] { Begin(); });
                   });
}

void HandlerService::Core::LoadMint() {
  std::string fresh_key = options_.fresh_token_key;
  while (fresh_key.size() < kTokenKeyBytes) {
    const uint64_t random = runtime_.random().Next();
    for (int shift = 0; shift < 64; shift += 8)
      fresh_key.push_back(static_cast<char>(random >> shift));
  }
  LoadTokenMint(client_, executor_, std::move(fresh_key),
                [this](std::shared_ptr<const TokenMint> mint) {
                  if (drained_) return;
                  sends_.SetTokenMaker([mint](const GrantId& grant, uint64_t index) {
                    return mint->Handle({.grant = grant, .index = index});
                  });
                  MakeKeeper(shared_.layout.queue_shards);
                });
}

void HandlerService::Core::MakeKeeper(uint32_t shards) {
  lease::LeaseKeeper::Callbacks callbacks;
  callbacks.on_acquired = [this](const lease::HeldLease& lease) { OnAcquired(lease); };
  callbacks.on_lost = [this](uint32_t index) {
    shards_.erase(index);
    metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  };
  callbacks.on_release_wanted = [this](uint32_t index, Closure release) {
    const auto shard = shards_.find(index);
    if (shard == shards_.end()) return release();
    // Not from within the shard's own step: the release drops the shard.
    shard->second->Drain([this, release = std::make_shared<Closure>(std::move(release))] {
      executor_->Post([release] { (*release)(); });
    });
  };
  keeper_ = std::make_unique<lease::LeaseKeeper>(
      client_, runtime_, executor_,
      lease::LeaseKeeper::Options{.kind = "queue_shard",
                                  .count = shards,
                                  .instance = options_.instance,
                                  .ttl = options_.lease_ttl,
                                  .renew_every = options_.lease_renew_every},
      std::move(callbacks));
  cache_.NotifyRunsEnded([this](const Uid& schedule) {
    for (const auto& [index, shard] : shards_) shard->OnRunsEnded(schedule);
  });
  cache_.Start();
  keeper_->Start();
  ready_.store(true, std::memory_order_relaxed);
  Step();
}

void HandlerService::Core::OnAcquired(const lease::HeldLease& lease) {
  if (drained_) return;  // released with the others
  auto shard = std::make_unique<Shard>(shared_, lease, keeper_->Fence(lease.index));
  Shard& started = *(shards_[lease.index] = std::move(shard));
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  started.Start();
}

void HandlerService::Core::OnSessionLost() {
  if (keeper_ == nullptr) return;
  cache_.Restart();
  keeper_->DropAll();
}

void HandlerService::Core::OnFetched() {
  for (const auto& [index, shard] : shards_) shard->OnFetched();
  Wake();
}

void HandlerService::Core::Wake() {
  if (step_posted_) return;
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  if (elapsed < next_step_) return StepAt(next_step_, elapsed);
  step_posted_ = true;
  executor_->Post([this] {
    step_posted_ = false;
    Step();
  });
}

void HandlerService::Core::Step() {
  const absl::Duration begun = runtime_.clock().Elapsed();
  const absl::Time now = client_.NowLow();
  sends_.SendDue(now);
  absl::Duration sent = runtime_.clock().Elapsed();
  lead_.Step(now, sent);
  size_t rows = 0;
  for (const auto& [index, shard] : shards_) {
    shard->Step(now);
    rows += shard->rows();
    if (const absl::Duration elapsed = runtime_.clock().Elapsed(); elapsed >= sent + kSendGap) {
      sends_.SendDue(client_.NowLow());
      sent = runtime_.clock().Elapsed();
    }
  }
  metrics_.rows_in_memory.Set(static_cast<double>(rows));
  if (!drained_ && retention_.Due()) Sweep(now);
  PlanNextStep(now, begun);
  ReleaseIfDrained();
}

void HandlerService::Core::Sweep(absl::Time now) {
  std::vector<SweptShard> owned;
  for (const auto& [index, shard] : shards_) {
    if (!shard->draining())
      owned.push_back({.shard = static_cast<uint16_t>(index), .fence = shard->fence()});
  }
  retention_.Begin(now, std::move(owned));
}

// `now` and `begun`: when this step began, of the store and Clock::Elapsed.
void HandlerService::Core::PlanNextStep(absl::Time now, absl::Duration begun) {
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  absl::Duration at = elapsed + kIdleStep;
  // The store's time runs at most 500 ppm slower than ours; what is left of the difference costs
  // one more short wait.
  const auto at_store_time = [&](absl::Time time) {
    at = std::min(at, elapsed + std::max(time - now, absl::ZeroDuration()));
  };
  const std::optional<absl::Time> send = sends_.NextDue();
  if (send.has_value()) at_store_time(*send);
  for (const auto& [index, shard] : shards_) {
    // What is due already waits for an answer, which wakes; only what is to come needs the timer.
    const std::optional<absl::Time> due = shard->NextDue(now);
    if (due.has_value()) at_store_time(*due);
    if (shard->NextStep().has_value()) at = std::min(at, std::max(*shard->NextStep(), elapsed));
    if (shard->blocked()) at = std::min(at, elapsed + kBlockedStep);
  }
  next_step_ = elapsed + GapAfterStep(elapsed - begun);
  StepAt(std::max(at, next_step_), elapsed);
}

// Or earlier, if that is planned. `elapsed` is now.
void HandlerService::Core::StepAt(absl::Duration at, absl::Duration elapsed) {
  if (timer_ != 0 && at >= timer_at_ && timer_at_ > elapsed) return;
  if (timer_ != 0) executor_->Cancel(timer_);
  timer_at_ = at;
  timer_ = executor_->PostAfter(at - elapsed, [this] {
    timer_ = 0;
    Step();
  });
}

void HandlerService::Core::Drain(Closure done) {
  drained_ = std::move(done);
  for (const auto& [index, shard] : shards_) shard->Drain([this] { Wake(); });
  Wake();
}

void HandlerService::Core::ReleaseIfDrained() {
  if (!drained_ || releasing_) return;
  for (const auto& [index, shard] : shards_) {
    if (!shard->drained()) return;
  }
  releasing_ = true;
  if (keeper_ == nullptr) return drained_();
  keeper_->Release([this] { drained_(); });
}

HandlerService::HandlerService(HandlerOptions options, kv::KvStore& store, Runtime& runtime,
                               DeliveryTransport& transport)
    : core_(std::make_shared<Core>(std::move(options), store, runtime, transport)) {}

HandlerService::~HandlerService() { core_->Stop(); }

void HandlerService::Start() {
  core_->executor().Post([core = core_.get()] { core->Begin(); });
}

void HandlerService::Drain(Closure done) {
  core_->executor().Post(
      [core = core_.get(), done = std::move(done)]() mutable { core->Drain(std::move(done)); });
}

bool HandlerService::Ready() const { return core_->ready(); }

const HandlerMetrics& HandlerService::metrics() const { return core_->metrics(); }

}  // namespace escapement::handler
