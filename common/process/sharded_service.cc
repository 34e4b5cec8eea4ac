#include "common/process/sharded_service.h"

#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/lease/lease_table.h"

ABSL_FLAG(absl::Duration, lease_ttl, absl::Seconds(5),
          "how long a lease lasts without renewal: the leases of a dead process are free after it");
ABSL_FLAG(absl::Duration, lease_renew_every, absl::Seconds(1),
          "how often leases are renewed; at most a third of --lease_ttl");

namespace escapement {

namespace {

constexpr absl::Duration kReadLayoutAgain = absl::Seconds(1);

}  // namespace

ShardedService::ShardedService(ShardedServiceOptions options, kv::KvStore& store, Runtime& runtime)
    : options_(std::move(options)),
      runtime_(runtime),
      executor_(runtime.NewExecutor(options_.executor)),
      own_metrics_(options_.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
      client_(store, runtime, ClientOptions()),
      leases_acquired_(CounterOf("escapement_leases_acquired_total",
                                 "Leases of shards or partitions acquired.")),
      leases_lost_(CounterOf("escapement_leases_lost_total",
                             "Leases that ended although the owner did not give them back.")),
      sessions_lost_(CounterOf("escapement_store_sessions_lost_total",
                               "Sessions that the store did not know any more.")),
      leases_held_(GaugeOf("escapement_leases_held", "Leases of shards or partitions held.")),
      leases_owned_(GaugeOf("escapement_leases_owned",
                            "Shards or partitions that live processes of the program held together "
                            "when this one last read the leases; 0 after a lost session.")),
      leases_wanted_(GaugeOf("escapement_leases_wanted",
                             "Shards or partitions that all processes of the program hold "
                             "together; 0 before the store has told.")) {}

ShardedService::~ShardedService() = default;

kv::KvClient::Options ShardedService::ClientOptions() {
  kv::KvClient::Options options;
  options.name = absl::StrCat(options_.session_name, " ", options_.instance);
  options.session_executor = executor_;
  options.on_session_lost = [this] {
    sessions_lost_.Increment();
    if (keeper_ == nullptr) return;
    OnSessionLost();
    leases_owned_.Set(0);
    keeper_->DropAll();
  };
  return options;
}

void ShardedService::Start() {
  executor_->Post([this] { ReadLayout(); });
}

void ShardedService::PauseLeases(Closure done) {
  executor_->Post([this, done = std::move(done)]() mutable {
    if (draining()) return;
    if (keeper_ == nullptr) return done();
    keeper_->Pause(std::move(done));
  });
}

void ShardedService::ResumeLeases() {
  executor_->Post([this] {
    if (keeper_ != nullptr && !draining()) keeper_->Resume();
  });
}

void ShardedService::Drain(Closure done) {
  CHECK(done != nullptr);
  executor_->Post([this, done = std::move(done)]() mutable {
    drained_ = std::move(done);
    OnDrain();
  });
}

void ShardedService::Stop() { executor_->Stop(); }

void ShardedService::ReadLayout() {
  std::vector<kv::Key> keys = {{.cf = kv::ColumnFamily::kMeta, .key = std::string(kv::kLayoutKey)}};
  for (const std::string& key : options_.meta_keys)
    keys.push_back({.cf = kv::ColumnFamily::kMeta, .key = key});
  client_.MultiGet(std::move(keys), executor_, [this](absl::StatusOr<kv::GetResult> result) {
    if (draining()) return;
    if (result.ok() && result->values[0].has_value()) {
      const absl::StatusOr<kv::Layout> layout = kv::DecodeLayout(*result->values[0]);
      if (layout.ok()) {
        result->values.erase(result->values.begin());
        cell_ = layout->cell;
        return OnLayout(*layout, std::move(result->values));
      }
    }
    executor_->PostAfter(kReadLayoutAgain, [this] { ReadLayout(); });
  });
}

void ShardedService::StartLeases(uint32_t count) {
  CHECK(keeper_ == nullptr) << "the leases are started twice";
  leases_wanted_.Set(count);
  keeper_ = std::make_unique<lease::LeaseKeeper>(
      client_, runtime_, executor_,
      lease::LeaseKeeper::Options{.kind = options_.lease_kind,
                                  .count = count,
                                  .instance = options_.instance,
                                  .dead_instances = options_.dead_instances,
                                  .ttl = options_.lease_ttl,
                                  .renew_every = options_.lease_renew_every,
                                  .first_epoch = lease::FirstEpochOf(cell_)},
      LeaseCallbacks());
  keeper_->Start();
  SetReady(true);
}

lease::LeaseKeeper::Callbacks ShardedService::LeaseCallbacks() {
  lease::LeaseKeeper::Callbacks callbacks;
  callbacks.on_acquired = [this](const lease::HeldLease& lease) {
    leases_acquired_.Increment();
    leases_held_.Add(1);
    given_back_.erase(lease.index);
    OnAcquired(lease);
  };
  callbacks.on_lost = [this](uint32_t index) {
    if (given_back_.erase(index) == 0 && !releasing_) leases_lost_.Increment();
    leases_held_.Add(-1);
    OnLost(index);
  };
  callbacks.on_release_wanted = [this](uint32_t index, Closure release) {
    auto shared = std::make_shared<Closure>(std::move(release));
    OnReleaseWanted(index, [this, index, shared] {
      given_back_.insert(index);
      (*shared)();
    });
  };
  callbacks.on_read = [this](uint32_t owned) { leases_owned_.Set(owned); };
  return callbacks;
}

Counter& ShardedService::CounterOf(const char* name, const char* help) {
  return *registry().GetCounter(name, help, {{"program", options_.executor}});
}

Gauge& ShardedService::GaugeOf(const char* name, const char* help) {
  return *registry().GetGauge(name, help, {{"program", options_.executor}});
}

kv::Condition ShardedService::Fence(uint32_t index) const {
  return CheckNotNull(keeper_)->Fence(index);
}

void ShardedService::ReleaseLeases() {
  CHECK(draining());
  if (std::exchange(releasing_, true)) return;
  if (keeper_ == nullptr) return drained_();
  keeper_->Release([this] { drained_(); });
}

void ShardedService::Wake() {
  if (step_posted_) return;
  step_posted_ = true;
  executor_->Post([this] {
    step_posted_ = false;
    Step();
  });
}

void ShardedService::PlanStep(absl::Duration at, absl::Duration delay) {
  if (timer_ != 0) executor_->Cancel(timer_);
  timer_ = 0;
  timer_at_ = at;
  if (delay == absl::InfiniteDuration()) return;
  timer_ = executor_->PostAfter(delay, [this] {
    timer_ = 0;
    Step();
  });
}

void ValidateLeaseFlags(std::vector<std::string>& errors) {
  // With a shorter ttl, most of the lease would be the margin between the holder's and the store's
  // view of its end.
  if (LeaseTtl() < absl::Milliseconds(500)) errors.push_back("--lease_ttl: must be at least 500ms");
  if (LeaseRenewEvery() <= absl::ZeroDuration() || LeaseRenewEvery() * 3 > LeaseTtl()) {
    errors.push_back("--lease_renew_every: must be positive and at most a third of --lease_ttl");
  }
}

absl::Duration LeaseTtl() { return absl::GetFlag(FLAGS_lease_ttl); }
absl::Duration LeaseRenewEvery() { return absl::GetFlag(FLAGS_lease_renew_every); }

}  // namespace escapement
