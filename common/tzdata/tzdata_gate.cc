#include "common/tzdata/tzdata_gate.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/group_parts.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::tzdata {

namespace {

using kv::ColumnFamily;

constexpr absl::Duration kAgain = absl::Seconds(1);  // wait after a failure or the end of a watch
constexpr size_t kZonesLogged = 20;

}  // namespace

class TzdataGate::Core {
 public:
  Core(Options options, kv::KvStore& store, Runtime& runtime, Closure on_open, Closure on_close)
      : options_(std::move(options)),
        on_open_(std::move(on_open)),
        on_close_(std::move(on_close)),
        executor_(runtime.NewExecutor("tzdata")),
        client_(store, runtime, ClientOptions()) {
    if (options_.metrics != nullptr)
      collector_ = options_.metrics->AddCollector([this] { ShowInfo(); });
  }
  ~Core() { executor_->Stop(); }

  void Read();
  bool open() const {
    absl::MutexLock lock(&mutex_);
    return phase_ == Phase::kOpen;
  }
  const std::string& revision() const { return options_.database.revision; }
  const std::shared_ptr<Executor>& executor() const { return executor_; }

 private:
  // kHeldBack may become kOpen; kClosed is final.
  enum class Phase { kUnknown, kHeldBack, kOpen, kClosed };

  kv::KvClient::Options ClientOptions() const {
    kv::KvClient::Options client;
    client.name = absl::StrCat("tzdata ", options_.instance);
    return client;
  }
  void ReadLater() {
    executor_->PostAfter(kAgain, [this] { Read(); });
  }
  void Watch(kv::CommitSeq seq);
  void OnRead(const kv::GetResult& result);
  void ReadZones(std::string old_revision, std::string begin, RulesByName kept);
  void Commit(kv::Group group);
  void SetPhase(Phase phase, absl::string_view in_store);
  void ShowInfo();

  const Options options_;
  Closure on_open_, on_close_;
  const std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  std::unique_ptr<kv::Watch> watch_;
  bool reading_ = false;     // true until the answer, also of a commit that follows
  bool read_again_ = false;  // tz_rev changed during the read

  mutable absl::Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kUnknown;
  std::string in_store_ ABSL_GUARDED_BY(mutex_);
  MetricLabels info_labels_ ABSL_GUARDED_BY(mutex_);  // as /metrics showed them last
  // The last member, because its collector reads the others.
  std::unique_ptr<Metrics::CollectorHandle> collector_;
};

void TzdataGate::Core::Read() {
  if (reading_) {
    read_again_ = true;
    return;
  }
  reading_ = true;
  client_.MultiGet({{ColumnFamily::kMeta, std::string(kRevisionKey)}}, executor_,
                   [this](absl::StatusOr<kv::GetResult> result) {
                     reading_ = false;
                     if (!result.ok()) return ReadLater();
                     if (watch_ == nullptr) Watch(result->seq);
                     OnRead(*result);
                     if (!reading_ && std::exchange(read_again_, false)) Read();
                   });
}

// Watches from the sequence of the read on, so that no change is missed.
void TzdataGate::Core::Watch(kv::CommitSeq seq) {
  watch_ = client_.OpenWatch({.cf = ColumnFamily::kMeta,
                              .begin = std::string(kRevisionKey),
                              .end = KeyAfter(kRevisionKey),
                              .from_seq = seq},
                             /*excluding_own=*/false, executor_,
                             {.on_batch = [this](const kv::WatchBatch&) { Read(); },
                              .on_lagged =
                                  [this](const absl::Status&) {
                                    executor_->PostAfter(kAgain, [this] {
                                      watch_ = nullptr;
                                      Read();
                                    });
                                  }});
}

void TzdataGate::Core::OnRead(const kv::GetResult& result) {
  const std::string& mine = revision();
  const std::optional<std::string>& in_store = result.values[0];
  if (!in_store) {
    Log(LogLevel::kInfo, "tzdata", "the store takes this machine's time zone database",
        {{"revision", mine}});
    return Commit(Adopt(mine, options_.database.zones(), result.store_time));
  }
  if (*in_store == mine) return SetPhase(Phase::kOpen, *in_store);
  if (!options_.switches || !Newer(mine, *in_store)) return SetPhase(Phase::kHeldBack, *in_store);
  reading_ = true;
  ReadZones(*in_store, std::string(kZonePrefix), {});
}

void TzdataGate::Core::ReadZones(std::string old_revision, std::string begin, RulesByName kept) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kMeta;
  scan.begin = std::move(begin);
  scan.end = PrefixEnd(std::string(kZonePrefix));
  client_.Scan(std::move(scan), executor_,
               [this, old_revision = std::move(old_revision),
                kept = std::move(kept)](absl::StatusOr<kv::ScanResult> result) mutable {
                 if (!result.ok()) {
                   reading_ = false;
                   return ReadLater();
                 }
                 for (const kv::Entry& entry : result->entries) {
                   if (auto rules = DecodeRules(entry.value))
                     kept[entry.key.substr(kZonePrefix.size())] = *std::move(rules);
                 }
                 if (result->more && !result->entries.empty()) {
                   std::string next = KeyAfter(result->entries.back().key);
                   return ReadZones(std::move(old_revision), std::move(next), std::move(kept));
                 }
                 SwitchPlan plan = PlanSwitch(old_revision, revision(), kept,
                                              options_.database.zones(), result->store_time);
                 const size_t moved = plan.moved.size();
                 if (moved > kZonesLogged) plan.moved.resize(kZonesLogged);
                 Log(LogLevel::kInfo, "tzdata", "the store switches to a newer time zone database",
                     {{"from", old_revision},
                      {"to", revision()},
                      {"zones_moved", moved},
                      {"some", absl::StrJoin(plan.moved, " ")}});
                 Commit(std::move(plan.group));
               });
}

// Applied or not, reads afterwards which revision is in force.
void TzdataGate::Core::Commit(kv::Group group) {
  reading_ = true;
  kv::Commit commit;
  commit.groups = {std::move(group)};
  client_.CommitAsync(std::move(commit), executor_,
                      [this](absl::StatusOr<kv::CommitResult> result) {
                        reading_ = false;
                        if (!result.ok()) return ReadLater();
                        Read();
                      });
}

void TzdataGate::Core::SetPhase(Phase phase, absl::string_view in_store) {
  Phase before;
  bool same = false;
  {
    absl::MutexLock lock(&mutex_);
    before = phase_;
    if (before == Phase::kClosed || (before == Phase::kOpen && phase == Phase::kHeldBack))
      phase = Phase::kClosed;
    same = before == phase && in_store_ == in_store;
    phase_ = phase;
    in_store_ = std::string(in_store);
  }
  if (same) return;
  if (phase != Phase::kOpen) {
    Log(LogLevel::kError, "tzdata",
        "another time zone database is in force: this process takes no part",
        {{"revision", revision()}, {"in_store", in_store}});
  }
  if (phase == Phase::kOpen && before != Phase::kOpen) std::exchange(on_open_, nullptr)();
  if (phase == Phase::kClosed && before == Phase::kOpen) std::exchange(on_close_, nullptr)();
}

void TzdataGate::Core::ShowInfo() {
  constexpr const char* kName = "escapement_tzdata_info";
  absl::MutexLock lock(&mutex_);
  MetricLabels labels = {{"version", revision()}, {"rev_in_store", in_store_}};
  if (labels == info_labels_) return;
  if (!info_labels_.empty()) options_.metrics->RemoveGauge(kName, info_labels_);
  options_.metrics
      ->GetGauge(kName, "The time zone database of this process and the one in force", labels)
      ->Set(1);
  info_labels_ = std::move(labels);
}

TzdataGate::TzdataGate(Options options, kv::KvStore& store, Runtime& runtime, Closure on_open,
                       Closure on_close)
    : core_(std::make_unique<Core>(std::move(options), store, runtime, std::move(on_open),
                                   std::move(on_close))) {}
TzdataGate::~TzdataGate() = default;

void TzdataGate::Start() {
  core_->executor()->Post([core = core_.get()] { core->Read(); });
}
bool TzdataGate::Open() const { return core_->open(); }
const std::string& TzdataGate::revision() const { return core_->revision(); }
const std::shared_ptr<Executor>& TzdataGate::executor() const { return core_->executor(); }

namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr absl::Duration kKeptBefore = absl::Hours(366 * 24);
constexpr absl::Duration kKeptAfter = absl::Hours(3660 * 24);
// A switch also rewrites the rules of zones that reach no further than this.
constexpr absl::Duration kKeptAtLeast = absl::Hours(1830 * 24);

ZoneRules KeptRules(const cron::Zone& zone, absl::Time now) {
  return RulesOf(zone, now - kKeptBefore, now + kKeptAfter);
}

}  // namespace

kv::Group Adopt(absl::string_view revision, const std::vector<cron::Zone>& zones, absl::Time now) {
  kv::Group group;
  group.conditions = {kv::Absent(ColumnFamily::kMeta, std::string(kRevisionKey))};
  group.mutations.push_back(
      kv::Put(ColumnFamily::kMeta, std::string(kRevisionKey), std::string(revision)));
  for (const cron::Zone& zone : zones)
    group.mutations.push_back(
        kv::Put(ColumnFamily::kMeta, ZoneRulesKey(zone.name()), EncodeRules(KeptRules(zone, now))));
  return group;
}

SwitchPlan PlanSwitch(absl::string_view old_revision, absl::string_view revision,
                      const RulesByName& kept, const std::vector<cron::Zone>& zones,
                      absl::Time now) {
  SwitchPlan plan;
  plan.group.conditions = {RevisionIs(old_revision)};
  plan.group.mutations = {
      kv::Put(ColumnFamily::kMeta, std::string(kRevisionKey), std::string(revision))};
  Switch change;
  change.old_revision = std::string(old_revision);
  change.new_revision = std::string(revision);
  for (const cron::Zone& zone : zones) {
    ZoneRules rules = KeptRules(zone, now);
    const auto before = kept.find(zone.name());
    const bool known = before != kept.end();
    if (known && !SameRules(before->second, rules, now + kSwitchReach)) {
      change.before.insert(*before);
      plan.moved.push_back(zone.name());
    }
    if (!known || !SameRules(before->second, rules) || before->second.end < now + kKeptAtLeast)
      plan.group.mutations.push_back(
          kv::Put(ColumnFamily::kMeta, ZoneRulesKey(zone.name()), EncodeRules(rules)));
  }
  plan.group.mutations.push_back({.cf = ColumnFamily::kMeta,
                                  .kind = Mutation::Kind::kPutStamped,
                                  .key = std::string(kSwitchKey),
                                  .value = EncodeSwitch(change),
                                  .stamp_offset = kSwitchStampOffset});
  return plan;
}

}  // namespace escapement::tzdata
