#include "common/lease/lease_keeper.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "common/kv/engine/store_beat.h"
#include "common/lease/lease_table.h"
#include "common/runtime/perturb.h"

namespace escapement::lease {
namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

Condition StampPassed(ColumnFamily cf, const std::string& key, uint32_t offset) {
  return {.cf = cf, .key = key, .kind = Condition::Kind::kStampPassed, .number = offset};
}

Condition EpochIs(const std::string& key, uint64_t epoch) {
  return {.cf = ColumnFamily::kLeases,
          .key = key,
          .kind = Condition::Kind::kValuePrefix,
          .value = EpochPrefix(epoch)};
}

Mutation StampedLease(const std::string& key, uint64_t epoch, absl::string_view owner,
                      absl::Duration ttl) {
  return {.cf = ColumnFamily::kLeases,
          .kind = Mutation::Kind::kPutStamped,
          .key = key,
          .value = EncodeLeaseValue(epoch, owner),
          .stamp_offset = kLeaseStampOffset,
          .stamp_add = ttl};
}

}  // namespace

class LeaseKeeper::Core : public std::enable_shared_from_this<LeaseKeeper::Core> {
 public:
  Core(kv::KvClient& client, Runtime& runtime, std::shared_ptr<Executor> executor, Options options,
       Callbacks callbacks)
      : client_(client),
        runtime_(runtime),
        executor_(std::move(executor)),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)) {}

  void Step();
  void Pause(Closure done);
  void Resume();
  void Release(Closure done);
  void DropAll();
  void Stop() { stopped_ = true; }

  bool Valid(uint32_t index) const {
    const auto held = held_.find(index);
    return held != held_.end() && runtime_.clock().Elapsed() < held->second.valid_until;
  }
  Condition Fence(uint32_t index) const { return EpochIs(Key(index), held_.at(index).epoch); }
  std::vector<uint32_t> Held() const;

 private:
  enum class Leaving { kNo, kAsked, kReady };
  struct Lease {
    uint64_t epoch = 0;
    absl::Duration valid_until;  // by Clock::Elapsed
    Leaving leaving = Leaving::kNo;
  };
  // The answers to one step's scans, which run at the same time.
  struct Answers {
    bool all_held = false;  // this instance has just renewed all leases that exist, so none are
                            // read
    std::optional<absl::StatusOr<kv::ScanResult>> leases;
    std::optional<absl::StatusOr<kv::ScanResult>> members;
  };
  // The store's content as one step read it.
  struct View {
    std::vector<std::string> members;
    std::vector<std::string> stale_members;  // keys
    std::vector<std::optional<std::string>> values;
    std::vector<SeenLease> leases;
  };

  std::string Key(uint32_t index) const { return LeaseKey(options_.kind, index); }
  bool IsDead(const std::string& instance) const {
    return std::count(options_.dead_instances.begin(), options_.dead_instances.end(), instance) > 0;
  }
  kv::Group MemberGroup() const;
  void OnRenewed(absl::Duration sent, const std::vector<uint32_t>& renewed,
                 const absl::StatusOr<kv::CommitResult>& result);
  void Read();
  void OnRead(const Answers& answers);
  void SeeLeases(const kv::ScanResult& leases, View& view) const;
  void SeeMembers(const kv::ScanResult& members, View& view) const;
  void Decide(const View& view);
  void AskToLeave(uint32_t index);
  void AskAllToLeave();
  void StepNow();
  void Acquire(const View& view, const std::vector<uint32_t>& indices);
  void OnAcquired(absl::Duration sent, const std::vector<HeldLease>& asked,
                  const absl::StatusOr<kv::CommitResult>& result);
  absl::Duration UntilNextStep(bool soon) const;
  void EndStep(bool soon);
  void Lose(uint32_t index);
  void ReleaseAll();

  // Runs `then` with the answer, unless the keeper stopped or all leases were dropped after the
  // request.
  template <typename T, typename F>
  auto Guarded(F then) {
    return [self = shared_from_this(), generation = generation_,
            then = std::move(then)](T answer) mutable {
      if (self->stopped_) return;
      if (self->generation_ != generation) return;
      then(std::move(answer));
    };
  }

  kv::KvClient& client_;
  Runtime& runtime_;
  std::shared_ptr<Executor> executor_;
  Options options_;
  Callbacks callbacks_;

  std::map<uint32_t, Lease> held_;
  uint64_t generation_ = 0;
  bool stepping_ = false;
  bool again_ = false;  // a lease is ready to be released, or Pause or Resume: step again at once
  bool stopped_ = false;
  absl::Duration step_began_ = absl::ZeroDuration();
  Executor::TimerId timer_ = 0;
  bool paused_ = false;
  Closure none_held_;  // set by Pause, until it is called
  Closure released_;   // set by Release
};

std::vector<uint32_t> LeaseKeeper::Core::Held() const {
  std::vector<uint32_t> held;
  for (const auto& [index, lease] : held_) held.push_back(index);
  return held;
}

kv::Group LeaseKeeper::Core::MemberGroup() const {
  kv::Group group;
  if (paused_ || stopped_) {
    group.mutations.push_back({.cf = ColumnFamily::kMembers,
                               .kind = Mutation::Kind::kDelete,
                               .key = MemberKey(options_.kind, options_.instance)});
    return group;
  }
  group.mutations.push_back({.cf = ColumnFamily::kMembers,
                             .kind = Mutation::Kind::kPutStamped,
                             .key = MemberKey(options_.kind, options_.instance),
                             .value = EncodeMemberValue(),
                             .stamp_offset = kMemberStampOffset,
                             .stamp_add = options_.ttl});
  return group;
}

// One step: renew leases (and release those that are ready), read leases and members, decide,
// acquire. Steps never overlap, so a late renewal cannot revive a lease that was released after it.
void LeaseKeeper::Core::Step() {
  if (stopped_ || stepping_) return;
  stepping_ = true;
  again_ = false;
  timer_ = 0;
  step_began_ = runtime_.clock().Elapsed();
  std::vector<uint32_t> leaving;
  for (const auto& [index, lease] : held_) {
    if (lease.leaving == Leaving::kReady) leaving.push_back(index);
  }
  kv::Commit commit;
  commit.groups.push_back(MemberGroup());
  for (uint32_t index : leaving) {
    const uint64_t epoch = held_.at(index).epoch;
    Lose(index);
    commit.groups.push_back(
        {.conditions = {EpochIs(Key(index), epoch)},
         .mutations = {StampedLease(Key(index), epoch, "", absl::ZeroDuration())}});
  }
  const size_t released = leaving.size();
  std::vector<uint32_t> renewed;
  for (const auto& [index, lease] : held_) {
    renewed.push_back(index);
    commit.groups.push_back(
        {.conditions = {EpochIs(Key(index), lease.epoch)},
         .mutations = {StampedLease(Key(index), lease.epoch, options_.instance, options_.ttl)}});
  }
  client_.CommitAsync(
      std::move(commit), executor_,
      Guarded<absl::StatusOr<kv::CommitResult>>(
          [this, sent = step_began_, renewed, released](absl::StatusOr<kv::CommitResult> result) {
            if (result.ok()) {
              auto& verdicts = result->verdicts;
              verdicts.erase(verdicts.begin(), verdicts.begin() + 1 + released);
            }
            OnRenewed(sent, renewed, result);
          }));
}

void LeaseKeeper::Core::OnRenewed(absl::Duration sent, const std::vector<uint32_t>& renewed,
                                  const absl::StatusOr<kv::CommitResult>& result) {
  if (!result.ok()) return EndStep(true);
  for (size_t i = 0; i < renewed.size(); ++i) {
    const auto lease = held_.find(renewed[i]);
    if (lease == held_.end()) continue;
    if (result->verdicts[i].applied) {
      lease->second.valid_until = sent + options_.ttl - options_.margin;
    } else {
      Lose(renewed[i]);
    }
  }
  if (paused_ && held_.empty() && none_held_) std::exchange(none_held_, nullptr)();
  if (released_) return ReleaseAll();
  if (paused_) return EndStep(false);
  Read();
}

void LeaseKeeper::Core::Read() {
  const auto answers = std::make_shared<Answers>();
  const std::string prefix = KindPrefix(options_.kind);
  const auto scan = [&](ColumnFamily cf,
                        std::optional<absl::StatusOr<kv::ScanResult>> Answers::*answer) {
    client_.Scan({.cf = cf, .begin = prefix, .end = PrefixEnd(prefix), .limit = 4096}, executor_,
                 Guarded<absl::StatusOr<kv::ScanResult>>(
                     [this, answers, answer](absl::StatusOr<kv::ScanResult> result) {
                       (*answers).*answer = std::move(result);
                       OnRead(*answers);
                     }));
  };
  answers->all_held = held_.size() == options_.count;
  if (!answers->all_held) scan(ColumnFamily::kLeases, &Answers::leases);
  scan(ColumnFamily::kMembers, &Answers::members);
}

void LeaseKeeper::Core::OnRead(const Answers& answers) {
  if ((!answers.all_held && !answers.leases) || !answers.members) return;
  if (released_) return ReleaseAll();
  if (paused_) return EndStep(false);
  if ((!answers.all_held && !answers.leases->ok()) || !answers.members->ok()) return EndStep(true);
  View view;
  view.values.resize(options_.count);
  if (answers.all_held) {
    view.leases.assign(options_.count, {.owner = options_.instance});
  } else {
    view.leases.resize(options_.count);
    SeeLeases(**answers.leases, view);
  }
  SeeMembers(**answers.members, view);
  if (callbacks_.on_read) {
    const auto owned = std::count_if(
        view.leases.begin(), view.leases.end(),
        [](const SeenLease& lease) { return !lease.owner.empty() && !lease.expired; });
    callbacks_.on_read(static_cast<uint32_t>(owned));
  }
  Decide(view);
}

void LeaseKeeper::Core::SeeLeases(const kv::ScanResult& leases, View& view) const {
  for (const kv::Entry& entry : leases.entries) {
    const std::optional<uint32_t> index = LeaseIndexOf(options_.kind, entry.key);
    const std::optional<LeaseRow> row = DecodeLeaseValue(entry.value);
    if (!index || *index >= options_.count || !row) continue;
    view.values[*index] = entry.value;
    const bool expired = row->end <= leases.store_time || IsDead(row->owner);
    view.leases[*index] = {.owner = row->owner, .expired = expired};
  }
}

void LeaseKeeper::Core::SeeMembers(const kv::ScanResult& members, View& view) const {
  for (const kv::Entry& entry : members.entries) {
    const std::optional<absl::Time> end = DecodeMemberValue(entry.value);
    std::string member = entry.key.substr(options_.kind.size() + 1);
    if (IsDead(member)) continue;
    if (end && *end > members.store_time) {
      view.members.push_back(std::move(member));
    } else if (!end || *end + 10 * options_.ttl < members.store_time) {
      view.stale_members.push_back(entry.key);
    }
  }
}

void LeaseKeeper::Core::Decide(const View& view) {
  std::vector<uint32_t> held;
  std::vector<SeenLease> leases = view.leases;
  for (const auto& [index, lease] : held_) {
    if (lease.leaving == Leaving::kNo) {
      held.push_back(index);
    } else {
      leases[index] = {.owner = "\x01leaving", .expired = false};  // still held
    }
  }
  LeasePlan plan = PlanLeases({.self = options_.instance,
                               .members = view.members,
                               .leases = std::move(leases),
                               .held = held});
  if (plan.release.empty() && !held.empty() && Perturb(runtime_, Site::kLeaseGivenUp))
    plan.release.push_back(held.front());
  if (plan.acquire.size() > 1 && Perturb(runtime_, Site::kLeaseAcquiredAlone))
    plan.acquire.resize(1);
  for (uint32_t index : plan.release) AskToLeave(index);
  if (plan.acquire.empty() && view.stale_members.empty()) return EndStep(false);
  Acquire(view, plan.acquire);
}

void LeaseKeeper::Core::AskToLeave(uint32_t index) {
  held_.at(index).leaving = Leaving::kAsked;
  Closure release = [self = shared_from_this(), index, epoch = held_.at(index).epoch] {
    const auto lease = self->held_.find(index);
    if (lease == self->held_.end() || lease->second.epoch != epoch) return;
    lease->second.leaving = Leaving::kReady;
    self->again_ = true;
    self->StepNow();
  };
  if (callbacks_.on_release_wanted) {
    callbacks_.on_release_wanted(index, std::move(release));
  } else {
    release();
  }
}

void LeaseKeeper::Core::AskAllToLeave() {
  for (uint32_t index : Held()) {
    const auto lease = held_.find(index);
    if (lease != held_.end() && lease->second.leaving == Leaving::kNo) AskToLeave(index);
  }
}

// Not while a step is under way: its end looks at again_.
void LeaseKeeper::Core::StepNow() {
  if (stepping_ || stopped_) return;
  executor_->Cancel(timer_);
  Step();
}

void LeaseKeeper::Core::Acquire(const View& view, const std::vector<uint32_t>& indices) {
  kv::Commit commit;
  std::vector<HeldLease> asked;
  for (uint32_t index : indices) {
    const std::string key = Key(index);
    kv::Group group;
    HeldLease lease{.index = index, .epoch = options_.first_epoch};
    if (!view.values[index].has_value()) {
      group.conditions.push_back(
          {.cf = ColumnFamily::kLeases, .key = key, .kind = Condition::Kind::kAbsent});
    } else {
      const LeaseRow row = *DecodeLeaseValue(*view.values[index]);
      lease.epoch = row.epoch + 1;
      lease.former_owner_end = row.end;
      group.conditions.push_back({.cf = ColumnFamily::kLeases,
                                  .key = key,
                                  .kind = Condition::Kind::kValueEquals,
                                  .value = *view.values[index]});
      // A released lease is free, and so is one of our own lost session, or of a dead instance. A
      // lease of another instance is free only once the store's time has passed its end.
      lease.former_owner_lost = !row.owner.empty() && row.owner != options_.instance;
      lease.former_owner_dead = IsDead(row.owner);
      if (lease.former_owner_lost && !lease.former_owner_dead) {
        group.conditions.push_back(StampPassed(ColumnFamily::kLeases, key, kLeaseStampOffset));
      }
    }
    group.mutations.push_back(StampedLease(key, lease.epoch, options_.instance, options_.ttl));
    commit.groups.push_back(std::move(group));
    asked.push_back(lease);
  }
  for (const std::string& key : view.stale_members) {
    // The instance may have come back after the read.
    commit.groups.push_back(
        {.conditions = {StampPassed(ColumnFamily::kMembers, key, kMemberStampOffset)},
         .mutations = {
             {.cf = ColumnFamily::kMembers, .kind = Mutation::Kind::kDelete, .key = key}}});
  }
  const absl::Duration sent = runtime_.clock().Elapsed();
  client_.CommitAsync(std::move(commit), executor_,
                      Guarded<absl::StatusOr<kv::CommitResult>>(
                          [this, sent, asked](absl::StatusOr<kv::CommitResult> result) {
                            OnAcquired(sent, asked, result);
                          }));
}

void LeaseKeeper::Core::OnAcquired(absl::Duration sent, const std::vector<HeldLease>& asked,
                                   const absl::StatusOr<kv::CommitResult>& result) {
  if (!result.ok()) return EndStep(true);
  bool missed = false;
  std::vector<HeldLease> acquired;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!result->verdicts[i].applied) {
      missed = true;
      continue;
    }
    held_[asked[i].index] = {.epoch = asked[i].epoch,
                             .valid_until = sent + options_.ttl - options_.margin};
    acquired.push_back(asked[i]);
  }
  const uint64_t generation = generation_;
  for (const HeldLease& lease : acquired) {
    if (callbacks_.on_acquired) callbacks_.on_acquired(lease);
    if (stopped_ || generation_ != generation) return;  // the callback dropped all leases
  }
  EndStep(missed);
}

void LeaseKeeper::Core::EndStep(bool soon) {
  if (released_) return ReleaseAll();
  // Some may have been acquired by a step that was under way.
  if (paused_) AskAllToLeave();
  stepping_ = false;
  if (again_) return Step();
  timer_ = executor_->PostAfter(UntilNextStep(soon), [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Step();
  });
}

absl::Duration LeaseKeeper::Core::UntilNextStep(bool soon) const {
  const absl::Duration spent = runtime_.clock().Elapsed() - step_began_;
  const auto from_now = [&](absl::Duration period) {
    return std::max(period - spent, absl::Milliseconds(1));
  };
  const absl::Duration every = options_.renew_every;
  if (Perturb(runtime_, Site::kLeaseRenewedLate))
    return from_now(std::max(every, (options_.ttl - options_.margin) / 2));
  if (soon) return from_now(every / 5);
  if (spent >= every) return from_now(every);
  return kv::UntilBeat(client_.NowLow(), every, spent);
}

void LeaseKeeper::Core::Lose(uint32_t index) {
  held_.erase(index);
  if (callbacks_.on_lost) callbacks_.on_lost(index);
}

void LeaseKeeper::Core::DropAll() {
  ++generation_;
  for (uint32_t index : Held()) Lose(index);
  if (stopped_) return;
  executor_->Cancel(timer_);
  EndStep(true);
}

// The first step gives back what leaves at once; each further release steps again.
void LeaseKeeper::Core::Pause(Closure done) {
  paused_ = true;
  none_held_ = std::move(done);
  const bool stepping = std::exchange(stepping_, true);
  AskAllToLeave();
  stepping_ = stepping;
  again_ = true;
  StepNow();
}

void LeaseKeeper::Core::Resume() {
  paused_ = false;
  none_held_ = nullptr;
  again_ = true;
  StepNow();
}

void LeaseKeeper::Core::Release(Closure done) {
  released_ = std::move(done);
  executor_->Cancel(timer_);
  if (!stepping_) ReleaseAll();
}

void LeaseKeeper::Core::ReleaseAll() {
  stopped_ = true;
  kv::Commit commit;
  commit.groups.push_back(MemberGroup());
  for (const auto& [index, lease] : held_) {
    commit.groups.push_back(
        {.conditions = {EpochIs(Key(index), lease.epoch)},
         .mutations = {StampedLease(Key(index), lease.epoch, "", absl::ZeroDuration())}});
  }
  for (uint32_t index : Held()) Lose(index);
  client_.CommitAsync(std::move(commit), executor_,
                      [self = shared_from_this()](const absl::StatusOr<kv::CommitResult>&) {
                        if (self->released_) std::exchange(self->released_, nullptr)();
                      });
}

LeaseKeeper::LeaseKeeper(kv::KvClient& client, Runtime& runtime, std::shared_ptr<Executor> executor,
                         Options options, Callbacks callbacks)
    : core_(std::make_shared<Core>(client, runtime, std::move(executor), std::move(options),
                                   std::move(callbacks))) {}

LeaseKeeper::~LeaseKeeper() { core_->Stop(); }

void LeaseKeeper::Start() { core_->Step(); }
void LeaseKeeper::Pause(Closure done) { core_->Pause(std::move(done)); }
void LeaseKeeper::Resume() { core_->Resume(); }
void LeaseKeeper::Release(Closure done) { core_->Release(std::move(done)); }
void LeaseKeeper::DropAll() { core_->DropAll(); }
bool LeaseKeeper::Valid(uint32_t index) const { return core_->Valid(index); }
kv::Condition LeaseKeeper::Fence(uint32_t index) const { return core_->Fence(index); }
std::vector<uint32_t> LeaseKeeper::Held() const { return core_->Held(); }

}  // namespace escapement::lease
