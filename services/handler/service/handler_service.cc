#include "services/handler/service/handler_service.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "common/base/check.h"
#include "common/process/sharded_service.h"
#include "common/secrets/sealed_value.h"
#include "common/statistics/minute_sums.h"
#include "common/tokens/token_batch.h"
#include "services/handler/base/step_gap.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/kinds/transport_table.h"
#include "services/handler/retention/retention_loop.h"
#include "services/handler/sending/send_loop.h"
#include "services/handler/sending/target_state_loop.h"
#include "services/handler/service/shard.h"

ABSL_FLAG(uint64_t, events_out_max, 16'384,
          "events that one handler has claimed and that are not answered");
ABSL_FLAG(absl::Duration, retention, absl::Hours(24 * 7),
          "how long records of ended events are kept");

namespace escapement::handler {

namespace {

// All shards are stepped at least this often, because horizons move and targets become slow.
constexpr absl::Duration kIdleStep = absl::Seconds(1);
constexpr absl::Duration kBlockedStep = absl::Milliseconds(100);
// During a step, rows that fell due since the last send are sent together once this time has
// passed.
constexpr absl::Duration kSendGap = absl::Milliseconds(1);
// How often the age of the oldest late row is looked for.
constexpr absl::Duration kLateEvery = absl::Milliseconds(100);

}  // namespace

class HandlerService::Impl final : public ShardedService {
 public:
  Impl(HandlerOptions options, kv::KvStore& store, Runtime& runtime, DeliveryTransport& transport)
      : ShardedService({.executor = "handler",
                        .session_name = "handler",
                        .instance = options.instance,
                        .dead_instances = options.dead_instances,
                        .lease_kind = "queue_shard",
                        .lease_ttl = options.lease_ttl,
                        .lease_renew_every = options.lease_renew_every,
                        .metrics = options.metrics},
                       store, runtime),
        options_(std::move(options)),
        metrics_(registry()),
        cache_(client(), executor(), [this] { OnFetched(); }),
        statistics_(client(), runtime, executor()),
        sends_(
            options_, lead_, runtime, executor(), transport, metrics_, statistics_,
            [this] { return client().NowLow(); }, [this] { StepSoon(); }),
        shared_{.options = options_,
                .client = client(),
                .runtime = runtime,
                .executor = executor(),
                .cache = cache_,
                .lead = lead_,
                .sends = sends_,
                .metrics = metrics_,
                .statistics = statistics_,
                .lease_valid = [this](uint32_t shard) { return LeaseValid(shard); },
                .wake = [this] { StepSoon(); },
                .drop_leases = [this] { DropLeases(); }},
        retention_(shared_),
        targets_(options_.instance, sends_, client(), runtime, executor(), metrics_) {}

  const HandlerMetrics& metrics() const { return metrics_; }

 private:
  // ShardedService
  void OnLayout(const kv::Layout& layout, std::vector<std::optional<std::string>> values) override;
  void OnAcquired(const lease::HeldLease& lease) override;
  void OnLost(uint32_t index) override;
  void OnReleaseWanted(uint32_t index, Closure release) override;
  void OnSessionLost() override { cache_.Restart(); }
  void Step() override;
  void OnDrain() override;

  void OnMint(std::shared_ptr<const TokenMint> mint);
  void OnFetched();
  void StepSoon();
  // Another shard is the first at each step, so that no shard always takes the room that is short.
  std::vector<Shard*> ShardsInTurn();
  void Sweep(absl::Time now);
  void ShowLate(absl::Time now, absl::Duration elapsed);
  void PlanNextStep(absl::Time now, absl::Duration begun);
  absl::Duration NextSend(absl::Time now, absl::Duration begun) const;
  void StepAt(absl::Duration at, absl::Duration elapsed);
  void ReleaseIfDrained();

  const HandlerOptions options_;
  HandlerMetrics metrics_;
  RecordCache cache_;
  ClaimLead lead_;
  MinuteSums statistics_;
  SendLoop sends_;
  HandlerCore shared_;
  RetentionLoop retention_;
  TargetStateLoop targets_;
  std::map<uint32_t, std::unique_ptr<Shard>> shards_;
  size_t steps_ = 0;
  bool wrote_last_ = false;  // the drain is writing the last statistics
  absl::Duration late_next_ = -absl::InfiniteDuration();  // Clock::Elapsed
  // Clock::Elapsed: the end of the pause. Before it, a step only sends what is due.
  absl::Duration next_step_ = -absl::InfiniteDuration();
};

void HandlerService::Impl::OnLayout(const kv::Layout& layout,
                                    std::vector<std::optional<std::string>> /*values*/) {
  shared_.layout = layout;
  std::string fresh_key = options_.fresh_token_key;
  while (fresh_key.size() < kTokenKeyBytes) {
    const uint64_t random = runtime().random().Next();
    for (int shift = 0; shift < 64; shift += 8)
      fresh_key.push_back(static_cast<char>(random >> shift));
  }
  LoadTokenMint(client(), executor(), std::move(fresh_key),
                [this](std::shared_ptr<const TokenMint> mint) {
                  if (!draining()) OnMint(std::move(mint));
                });
}

void HandlerService::Impl::OnMint(std::shared_ptr<const TokenMint> mint) {
  sends_.SetTokenMaker([mint = std::move(mint)](const GrantId& grant, uint64_t index) {
    return mint->Handle({.grant = grant, .index = index});
  });
  cache_.NotifyRunsEnded([this](const Uid& schedule) {
    for (const auto& [index, shard] : shards_) shard->OnRunsEnded(schedule);
  });
  cache_.OpenSecretsWith(options_.sealer);
  cache_.Start();
  StartLeases(shared_.layout.queue_shards);
  Step();
}

void HandlerService::Impl::OnAcquired(const lease::HeldLease& lease) {
  if (draining()) return;  // the drain releases all leases together
  auto shard = std::make_unique<Shard>(shared_, lease, Fence(lease.index));
  Shard& started = *(shards_[lease.index] = std::move(shard));
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  started.Start();
}

void HandlerService::Impl::OnLost(uint32_t index) {
  shards_.erase(index);
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
}

void HandlerService::Impl::OnReleaseWanted(uint32_t index, Closure release) {
  const auto shard = shards_.find(index);
  if (shard == shards_.end()) return release();
  // Posted, because the release drops the shard and may run within a step of the shard.
  shard->second->Drain([this, release = std::make_shared<Closure>(std::move(release))] {
    executor()->Post([release] { (*release)(); });
  });
}

void HandlerService::Impl::OnFetched() {
  for (const auto& [index, shard] : shards_) shard->OnFetched();
  StepSoon();
}

// Steps as soon as the pause after the last step is over.
void HandlerService::Impl::StepSoon() {
  if (step_posted()) return;
  const absl::Duration elapsed = runtime().clock().Elapsed();
  if (elapsed < next_step_) return StepAt(next_step_, elapsed);
  Wake();
}

void HandlerService::Impl::Step() {
  const absl::Duration begun = runtime().clock().Elapsed();
  const absl::Time now = client().NowLow();
  sends_.SendDue(now);
  absl::Duration sent = runtime().clock().Elapsed();
  if (begun < next_step_) return StepAt(std::min(next_step_, NextSend(now, begun)), sent);
  lead_.Step(now, sent);
  const std::vector<Shard*> shards = ShardsInTurn();
  const auto each = [&](auto call) {
    for (Shard* const shard : shards) {
      call(*shard);
      const absl::Duration elapsed = runtime().clock().Elapsed();
      if (elapsed < sent + kSendGap) continue;
      sends_.SendDue(client().NowLow());
      sent = runtime().clock().Elapsed();
    }
  };
  each([&](Shard& shard) { shard.Load(now); });
  for (uint8_t priority = 0; priority != kNothingDue;) {
    uint8_t next = kNothingDue;
    each([&](Shard& shard) { next = std::min(next, shard.TakeDue(now, priority)); });
    CHECK_GT(next, priority);
    priority = next;
  }
  size_t rows = 0;
  each([&](Shard& shard) {
    shard.Finish(now);
    rows += shard.rows();
  });
  metrics_.rows_in_memory.Set(static_cast<double>(rows));
  metrics_.events_out.Set(static_cast<double>(sends_.out()));
  if (begun >= late_next_) ShowLate(now, begun);
  if (!draining() && retention_.Due()) Sweep(now);
  targets_.Step(now);
  statistics_.Step(now);
  PlanNextStep(now, begun);
  ReleaseIfDrained();
}

std::vector<Shard*> HandlerService::Impl::ShardsInTurn() {
  std::vector<Shard*> shards;
  for (const auto& [index, shard] : shards_) shards.push_back(shard.get());
  if (shards.empty()) return shards;
  std::rotate(shards.begin(), shards.begin() + steps_++ % shards.size(), shards.end());
  return shards;
}

void HandlerService::Impl::ShowLate(absl::Time now, absl::Duration elapsed) {
  late_next_ = elapsed + kLateEvery;
  if (now == absl::InfinitePast()) return;  // the store has not told its time
  absl::Time first = now;
  for (const auto& [index, shard] : shards_) first = std::min(first, shard->FirstDue(now));
  metrics_.oldest_overdue_seconds.Set(absl::ToDoubleSeconds(now - first));
}

void HandlerService::Impl::Sweep(absl::Time now) {
  std::vector<SweptShard> owned;
  for (const auto& [index, shard] : shards_) {
    if (!shard->draining())
      owned.push_back({.shard = static_cast<uint16_t>(index), .fence = shard->fence()});
  }
  retention_.Begin(now, std::move(owned));
}

// `now` and `begun` are the times when this step began: in store time and in Clock::Elapsed.
void HandlerService::Impl::PlanNextStep(absl::Time now, absl::Duration begun) {
  const absl::Duration elapsed = runtime().clock().Elapsed();
  absl::Duration at = elapsed + kIdleStep;
  for (const auto& [index, shard] : shards_) {
    // Rows that are due already wait for an answer, which wakes. Only later rows need the timer.
    const std::optional<absl::Time> due = shard->NextDue(now);
    if (due.has_value()) at = std::min(at, begun + (*due - now));
    if (shard->NextStep().has_value()) at = std::min(at, std::max(*shard->NextStep(), elapsed));
    if (shard->blocked()) at = std::min(at, elapsed + kBlockedStep);
  }
  next_step_ = elapsed + GapAfterStep(elapsed - begun);
  StepAt(std::min(std::max(at, next_step_), NextSend(now, begun)), elapsed);
}

// When the next claimed event is due. Store time runs at most 500 ppm slower than our clock. If the
// step comes too early, it plans one more short wait.
absl::Duration HandlerService::Impl::NextSend(absl::Time now, absl::Duration begun) const {
  const std::optional<absl::Time> due = sends_.NextDue();
  if (!due.has_value()) return absl::InfiniteDuration();
  return std::max(begun + (*due - now), runtime().clock().Elapsed() + kStepGapMin);
}

// Plans a step at `at`, unless an earlier one is planned. `elapsed` is the present Clock::Elapsed.
void HandlerService::Impl::StepAt(absl::Duration at, absl::Duration elapsed) {
  const std::optional<absl::Duration> planned = planned_step();
  if (planned.has_value() && at >= *planned && *planned > elapsed) return;
  PlanStep(at, at - elapsed);
}

void HandlerService::Impl::OnDrain() {
  for (const auto& [index, shard] : shards_) shard->Drain([this] { StepSoon(); });
  StepSoon();
}

void HandlerService::Impl::ReleaseIfDrained() {
  if (!draining()) return;
  for (const auto& [index, shard] : shards_) {
    if (!shard->drained()) return;
  }
  if (std::exchange(wrote_last_, true)) return;
  statistics_.WriteLast(client().NowLow(), [this] { ReleaseLeases(); });
}

HandlerService::HandlerService(HandlerOptions options, kv::KvStore& store, Runtime& runtime,
                               DeliveryTransport& transport)
    : impl_(std::make_unique<Impl>(std::move(options), store, runtime, transport)) {}

HandlerService::~HandlerService() { impl_->Stop(); }

void HandlerService::Start() { impl_->Start(); }

void HandlerService::Drain(Closure done) { impl_->Drain(std::move(done)); }

bool HandlerService::Ready() const { return impl_->Ready(); }
ShardedService& HandlerService::sharded() { return *impl_; }

const HandlerMetrics& HandlerService::metrics() const { return impl_->metrics(); }

namespace {

constexpr double kDrainShare = 0.8;

HandlerOptions OptionsFromFlags(const ServiceContext& context) {
  HandlerOptions options;
  options.instance = context.instance;
  options.dead_instances = context.dead_instances;
  options.metrics = &context.metrics;
  options.fresh_token_key = FreshTokenKey();
  options.sealer = SealerFromFlag();
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  options.events_out_max = absl::GetFlag(FLAGS_events_out_max);
  options.retention = absl::GetFlag(FLAGS_retention);
  // The rest of the timeout is for releasing the leases, so that the next owner does not have to
  // wait until they expire.
  options.drain_max = context.drain_timeout * kDrainShare;
  return options;
}

}  // namespace

void ValidateHandlerFlags(std::vector<std::string>& errors) {
  ValidateTransportFlags(errors);
  ValidateAddressFlags(errors);
  if (absl::GetFlag(FLAGS_events_out_max) < 1)
    errors.push_back("--events_out_max: must be at least 1");
  if (absl::GetFlag(FLAGS_retention) < absl::Hours(24))
    errors.push_back("--retention: must be at least 24h");
}

HostedHandler::HostedHandler(const ServiceContext& context, kv::KvStore& store)
    : transport_(NewTransports(AddressRuleFromFlags(context.on_loopback))),
      service_(OptionsFromFlags(context), store, context.runtime, *transport_) {}

absl::Status HostedHandler::Start() {
  service_.Start();
  return absl::OkStatus();
}

}  // namespace escapement::handler
