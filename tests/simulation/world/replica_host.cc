#include "tests/simulation/world/replica_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sim/sim_random.h"

namespace escapement::simulation {

ReplicaHost::ReplicaHost(sim::SimWorld& world, kv::MemLogEngine& engine,
                         ForgetfulKvStore::Memory& sessions, Options options)
    : Host(options.name),
      world_(world),
      engine_(engine),
      memory_(sessions),
      options_(std::move(options)),
      endpoint_{name_, nullptr} {}

std::string ReplicaHost::LeaderAddress() const {
  if (loop_ == nullptr) return "";  // it ends
  const kv::ReplicaStatus status = loop_->status();
  return status.leader.owner == Owner() ? "" : status.leader_address;
}

void ReplicaHost::Start() {
  sim::SimProcess::Options options;
  if (options_.shares_machine) {
    options.boot_id = "store";
  } else {
    sim::SimRandom random(world_.seed(), absl::StrCat("clock of ", name_));
    options.boot_id = name_;
    options.elapsed_offset = random.Between(absl::ZeroDuration(), absl::Hours(1000));
    // Never fast: a successor that counted the silence too fast would be ahead of true time, by
    // which checkers judge.
    options.elapsed_rate_ppm = -static_cast<int32_t>(random.Below(201));
  }
  options.wall_clock_offset = wall_clock_offset_;
  options.incarnation = ++incarnation_;
  options.perturbations = options_.perturbations;
  process_ = std::make_unique<sim::SimProcess>(world_, name_, options);
  at_start_ = *folder_;

  kv::MemLog::Options log;
  log.name = name_;
  log_ = std::make_unique<kv::MemLog>(*process_, engine_, log);
  kv::SharedLog* way = log_.get();
  if (options_.mistakes.decorate_log) {
    decorated_ = options_.mistakes.decorate_log(*way, engine_);
    way = decorated_.get();
  }
  kv::MemReplica::Options copy;
  copy.layout = options_.layout;
  copy.tears_checkpoints = options_.mistakes.tears_checkpoints;
  copy.store.ignores_lease = options_.mistakes.ignores_lease;
  copy.store.leader_address = [this] { return LeaderAddress(); };
  copy.store.on_batch = options_.on_batch;
  copy_ = std::make_unique<kv::MemReplica>(*process_, std::move(copy), folder_);
  snapshots_ = std::make_unique<kv::MemSnapshots>(*process_, *way, *copy_);
  kv::ReplicaLoop::Options loop;
  loop.owner = Owner();
  loop.address = options_.address;
  loop.snapshot_log_bytes = options_.snapshot_log_bytes;
  loop.snapshot_age = absl::Minutes(2);
  loop.snapshot_check = absl::Seconds(5);
  loop_ = std::make_unique<kv::ReplicaLoop>(*process_, *way, *copy_, *snapshots_, std::move(loop));
  leader_front_ = std::make_unique<kv::LeaderFront>(
      *process_, [this]() -> std::shared_ptr<kv::KvStore> { return copy_->store(); },
      [this] { return LeaderAddress(); });
  front_ = std::make_unique<ForgetfulKvStore>(*leader_front_, memory_);
  endpoint_.service = front_.get();
  loop_->Start();
}

void ReplicaHost::Kill() {
  if (!up()) return;
  terms_ = terms();
  restored_ = restored();
  uploaded_ = uploaded();
  process_->Kill();
  endpoint_.service = nullptr;
  loop_.reset();
  snapshots_.reset();
  copy_.reset();
  front_.reset();
  leader_front_.reset();
  decorated_.reset();
  log_.reset();
  process_.reset();
}

void ReplicaHost::Stop(std::function<void()> done) {
  if (!up()) return done();
  const uint64_t incarnation = incarnation_;
  loop_->HandOver([this, incarnation, done = std::move(done)] {
    // Posted, since the loop must not be destroyed from within itself.
    world_.After(absl::ZeroDuration(), "exit", [this, incarnation, done] {
      if (incarnation != incarnation_ || !up()) return;  // killed in between
      Kill();
      done();
    });
  });
}

void ReplicaHost::HandOver() {
  if (up()) loop_->HandOver([] {});
}

void ReplicaHost::SetWallClockOffset(absl::Duration offset) {
  if (up()) process_->StepWallClock(offset - wall_clock_offset_);
  wall_clock_offset_ = offset;
}

}  // namespace escapement::simulation
