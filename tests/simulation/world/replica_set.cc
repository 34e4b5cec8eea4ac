#include "tests/simulation/world/replica_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/kv/layout.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/wire/leader_seeking_kv_store.h"
#include "common/sim/sim_net_kv_store.h"
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

uint64_t ReplicaHost::proven_seq() const {
  const auto& meta = folder_->families[static_cast<size_t>(kv::ColumnFamily::kMeta)];
  const auto found = meta.find(std::string(kv::kLogPlaceKey));
  return found == meta.end() ? 0 : kv::DecodeLogPlace(found->second).value().proven.seq;
}

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

namespace {

// A replica that lives has no more to apply than what the log got in this time.
constexpr absl::Duration kBehindMax = absl::Seconds(3);

std::string FamilyName(size_t family) { return absl::StrCat("family ", family); }

}  // namespace

ReplicaSet::ReplicaSet(sim::SimWorld& world, Options options)
    : world_(world),
      options_(std::move(options)),
      engine_process_(world, "log"),
      engine_(engine_process_) {
  engine_.set_on_replicated([this](const kv::LogRow& row) { OnReplicated(row); });
  for (int i = 0; i < options_.replicas; ++i) {
    ReplicaHost::Options host;
    host.name = absl::StrCat("store", i);
    host.address = absl::StrCat("10.0.0.", i + 1, ":7400");
    host.layout = options_.layout;
    host.shares_machine = options_.share_machine;
    host.on_batch = [this](absl::string_view row, const kv::MemLeadingStore::Records& records) {
      if (!records.empty()) sent_[StableHash64(row)] = records;
    };
    host.mistakes = options_.mistakes;
    host.perturbations = options_.perturbations;
    hosts_.push_back(std::make_unique<ReplicaHost>(world, engine_, memory_, std::move(host)));
  }
}

void ReplicaSet::OnReplicated(const kv::LogRow& row) {
  kv::RecordKind kind;
  CHECK(kv::ReadRecordKind(*row.data, kind).ok());
  log_.push_back({world_.Now(), row.position.seq, row.epoch,
                  static_cast<LoggedRow::Kind>(static_cast<int>(kind) - 1)});
  kv::DiskSink sink(truth_);
  CHECK(kv::ApplyRecord(*row.data, sink).ok());
  const auto sent = sent_.find(StableHash64(*row.data));
  if (sent == sent_.end()) return;
  for (const auto& record : sent->second) options_.on_durable(*record);
  sent_.erase(sent);
}

void ReplicaSet::StartAll() {
  for (const auto& host : hosts_) {
    if (!host->up()) host->Start();
  }
}

std::vector<std::string> ReplicaSet::processes() const {
  std::vector<std::string> names;
  for (const auto& host : hosts_) names.push_back(host->name());
  return names;
}

std::unique_ptr<kv::KvStore> ReplicaSet::Connect(sim::SimNetwork& network,
                                                 sim::SimProcess& client) {
  kv::LeaderSeekingKvStore::Options options;
  for (const auto& host : hosts_) options.addresses.push_back(host->address());
  options.open = [this, &network, &client](
                     const kv::StoreAddress& address) -> std::unique_ptr<kv::StoreConnection> {
    const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& each) {
      return each->address() == address.target;
    });
    CHECK(host != hosts_.end()) << address.target;
    sim::SimNetKvStore::Options net;
    net.generation = [host = host->get()] { return host->terms(); };
    return std::make_unique<sim::SimStoreConnection>(network, client, (*host)->endpoint(),
                                                     std::move(net));
  };
  return std::make_unique<kv::LeaderSeekingKvStore>(client, std::move(options));
}

ReplicaHost* ReplicaSet::leader() const {
  ReplicaHost* leader = nullptr;
  for (const auto& host : hosts_) {
    if (!host->leads()) continue;
    if (leader == nullptr || host->status().leader.epoch > leader->status().leader.epoch)
      leader = host.get();
  }
  return leader;
}

void ReplicaSet::SetWallClockOffset(absl::Duration offset, Evidence evidence) {
  wall_clock_offset_ = offset;
  clock_set_.push_back({world_.Now(), offset, evidence.synchronised, evidence.everywhere});
  ReplicaHost* leader = this->leader();
  if (leader == nullptr) leader = hosts_.front().get();
  for (const auto& host : hosts_) {
    if (host.get() == leader || offset == absl::ZeroDuration()) host->SetWallClockOffset(offset);
  }
}

void ReplicaSet::ConfirmClock() {
  ReplicaHost* leader = this->leader();
  if (leader == nullptr) return;
  clock_confirmed_.push_back(world_.Now());
  leader->endpoint().service->AskClock({.confirm = true},
                                       [](const absl::StatusOr<kv::ClockState>&) {});
}

std::vector<std::string> ReplicaSet::WrongCopies() const {
  std::vector<std::string> wrong;
  if (leader() == nullptr) wrong.push_back("no replica leads");
  for (const auto& host : hosts_) {
    if (std::string what = WhatIsWrong(*host); !what.empty())
      wrong.push_back(absl::StrCat(host->name(), ": ", what));
  }
  return wrong;
}

std::string ReplicaSet::WhatIsWrong(const ReplicaHost& host) const {
  kv::MemDisk copy = host.folder();
  auto& meta = copy.families[static_cast<size_t>(kv::ColumnFamily::kMeta)];
  const auto found = meta.find(std::string(kv::kLogPlaceKey));
  if (found == meta.end()) return "it has no copy";
  const kv::LogPosition at = kv::DecodeLogPlace(found->second).value().position;
  meta.erase(found);
  const auto& rows = engine_.replicated().rows();
  const auto row = rows.find(at.seq);
  if (row == rows.end()) return absl::StrCat("row ", at.seq, " is not in the log");
  if (row->second.position != at) return absl::StrCat("row ", at.seq, " is another one");
  kv::DiskSink sink(copy);
  for (auto next = std::next(row); next != rows.end(); ++next) {
    if (log_[next->first - 1].time < world_.Now() - kBehindMax)
      return absl::StrCat("it has not applied row ", next->first);
    CHECK(kv::ApplyRecord(*next->second.data, sink).ok());
  }
  for (size_t i = 0; i < copy.families.size(); ++i) {
    if (copy.families[i] != truth_.families[i])
      return absl::StrCat(FamilyName(i), " is not as the log says");
  }
  return "";
}

std::map<std::string, uint64_t> ReplicaSet::counts() const {
  std::map<std::string, uint64_t> counts;
  uint64_t epoch = 0;
  for (const LoggedRow& row : log_) {
    counts["store led by another replica"] += row.epoch != epoch ? 1 : 0;
    counts["handover in the log"] += row.kind == LoggedRow::Kind::kHandover ? 1 : 0;
    counts["row that proves others"] += row.kind == LoggedRow::Kind::kProof ? 1 : 0;
    epoch = row.epoch;
  }
  for (const auto& host : hosts_) {
    counts["snapshot uploaded"] += host->uploaded();
    counts["copy restored from a snapshot"] += host->restored();
  }
  return counts;
}

}  // namespace escapement::simulation
