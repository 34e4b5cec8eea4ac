#include "services/token_manager/turns/fair_queue.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "services/token_manager/turns/waiting_group.h"

namespace escapement::token_manager {

namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

}  // namespace

absl::Time Pacing::At(uint64_t index) const {
  if (count == 0) return absl::InfinitePast();
  if (index <= first) return begin;
  const uint64_t steps = std::min(index - first, count);
  const int64_t micros = std::max<int64_t>(absl::ToInt64Microseconds(duration), 0);
  const absl::uint128 at =
      (absl::uint128(static_cast<uint64_t>(micros)) * steps + count - 1) / count;
  return begin + absl::Microseconds(static_cast<int64_t>(absl::Uint128Low64(at)));
}

uint64_t Pacing::EndAt(absl::Time now) const {
  if (count == 0 || now >= begin + duration) return kMax;
  if (now < begin) return 0;
  const int64_t micros = absl::ToInt64Microseconds(duration);
  if (micros <= 0) return kMax;
  const auto passed = static_cast<uint64_t>(absl::ToInt64Microseconds(now - begin));
  const absl::uint128 steps =
      absl::uint128(passed) * count / static_cast<uint64_t>(micros) + 1;  // at most count
  const uint64_t end = first + absl::Uint128Low64(steps);
  return end < first ? kMax : end;
}

absl::Time EligibleAt(const QueuedSlice& slice) {
  return std::max(slice.due, slice.pacing.At(slice.first));
}

// Every group is in `heads`, a ready one also in its level, one that stands aside in `aside_`.
// Before what it is ordered by changes a group is lifted out of the former; Settle puts it where it
// belongs.
class FairQueue::State {
 public:
  void Add(QueuedSlice added);
  bool Remove(absl::string_view key);
  void Advance(absl::string_view key, uint64_t taken);
  void BeginRound() { quanta_.clear(); }
  std::optional<Turn> Next(absl::Time now, Fairness fairness, uint64_t tokens,
                           absl::FunctionRef<std::string(const QueuedSlice&)> passed_over);
  bool Reconsider(absl::string_view reason);
  void ReconsiderAll();
  Woken Wake(absl::string_view reason, size_t max);
  std::optional<absl::Time> NextEligible(absl::Time now);
  std::optional<absl::Time> NextChange(absl::Time now);

  uint64_t EligibleEvents(absl::Time now) const;

  absl::flat_hash_set<std::unique_ptr<WaitingSlice>, SliceHash, SliceEq> slices;
  absl::flat_hash_map<std::pair<uint8_t, Uid>, std::unique_ptr<WaitingGroup>> groups;
  absl::btree_set<WaitingGroup*, HeadOrder> heads;
  size_t groups_aside = 0;
  uint64_t events = 0;

 private:
  using Levels = absl::btree_map<uint8_t, WaitingLevel>;
  using Aside = std::map<std::string, absl::btree_set<WaitingGroup*, AgeOrder>, std::less<>>;
  struct First {
    WaitingGroup* group = nullptr;
    uint8_t its_class = 0;
    size_t class_groups = 0;
    // kFifo: when the first event of the next group of the class became eligible.
    absl::Time next_head_at = absl::InfiniteFuture();
  };

  void Replace(WaitingSlice* slice, QueuedSlice added);
  void Refresh(absl::Time now);
  uint8_t ClassOf(uint8_t priority, const WaitingLevel& level) const;
  First FirstOfAll(Fairness fairness) const;
  void Lift(WaitingGroup* group);
  void Settle(WaitingGroup* group);
  void Enter(WaitingGroup* group);
  void JoinLevel(WaitingGroup* group);
  void LeaveLevel(WaitingGroup* group);
  void TurnByKey(bool by_key);
  void TakeKey(WaitingGroup* group);
  void LeaveKey(WaitingGroup* group);
  void MoveLast(WaitingKey* key);
  void Discard(WaitingGroup* group);
  void SetAside(WaitingGroup* group, std::string reason);
  Aside::iterator PlaceOf(WaitingGroup* group);
  void TakePart(WaitingGroup* group);
  static bool All(Aside& aside, absl::string_view reason, State& state);

  absl::Time now_ = absl::InfinitePast();
  uint64_t turns_ = 0;
  Levels levels_;                                                       // none is empty
  bool by_key_ = false;                                                 // keys take turns
  absl::flat_hash_map<std::string, std::unique_ptr<WaitingKey>> keys_;  // only by_key_
  absl::btree_map<uint8_t, uint64_t> quanta_;  // for this round: class → events of a turn
  Aside aside_;
  Aside opened_;  // groups that Wake has still to wake; none is empty
};

// Its effective priority.
uint8_t FairQueue::State::ClassOf(uint8_t priority, const WaitingLevel& level) const {
  absl::Duration rest;
  const int64_t steps =
      absl::IDivDuration(now_ - (*level.by_head.begin())->head_at, kAgeingStep, &rest);
  return static_cast<uint8_t>(priority - std::min<int64_t>(steps, priority));
}

void FairQueue::State::JoinLevel(WaitingGroup* group) {
  WaitingLevel& level = levels_[group->priority];
  level.by_turn.insert(group);
  level.by_head.insert(group);
  if (!by_key_) return;
  level.by_key[group->key->turn].insert(group);
  ++group->key->ready;
}

void FairQueue::State::LeaveLevel(WaitingGroup* group) {
  const auto it = levels_.find(group->priority);
  WaitingLevel& level = it->second;
  level.by_turn.erase(group);
  level.by_head.erase(group);
  if (by_key_) {
    const auto of_key = level.by_key.find(group->key->turn);
    of_key->second.erase(group);
    if (of_key->second.empty()) level.by_key.erase(of_key);
    --group->key->ready;
  }
  if (level.by_turn.empty()) levels_.erase(it);
}

void FairQueue::State::TurnByKey(bool by_key) {
  if (by_key == by_key_) return;
  std::vector<WaitingGroup*> ready;
  for (WaitingGroup* group : heads) {
    if (group->standing == Standing::kReady) ready.push_back(group);
  }
  std::sort(ready.begin(), ready.end(), TurnOrder());
  for (WaitingGroup* group : ready) LeaveLevel(group);
  by_key_ = by_key;
  for (WaitingGroup* group : heads) by_key ? TakeKey(group) : LeaveKey(group);
  for (WaitingGroup* group : ready) Enter(group);
}

// It is in no level.
void FairQueue::State::TakeKey(WaitingGroup* group) {
  const std::string& name = (*group->slices.begin())->slice.policy_key;
  if (group->key != nullptr && group->key->name == name) return;
  LeaveKey(group);
  std::unique_ptr<WaitingKey>& key = keys_[name];
  if (key == nullptr) {
    key = std::make_unique<WaitingKey>();
    key->name = name;
    key->turn = ++turns_;
  }
  group->key = key.get();
  ++group->key->groups;
}

void FairQueue::State::LeaveKey(WaitingGroup* group) {
  WaitingKey* const key = std::exchange(group->key, nullptr);
  if (key != nullptr && --key->groups == 0) keys_.erase(std::string(key->name));
}

void FairQueue::State::MoveLast(WaitingKey* key) {
  const uint64_t former = std::exchange(key->turn, ++turns_);
  for (auto& [priority, level] : levels_) {
    const auto groups_of_key = level.by_key.find(former);
    if (groups_of_key == level.by_key.end()) continue;
    auto moved = std::move(groups_of_key->second);
    level.by_key.erase(groups_of_key);
    level.by_key.emplace(key->turn, std::move(moved));
  }
}

void FairQueue::State::Lift(WaitingGroup* group) {
  heads.erase(group);
  if (group->standing == Standing::kReady) LeaveLevel(group);
  if (group->standing == Standing::kAside) PlaceOf(group)->second.erase(group);
}

void FairQueue::State::Settle(WaitingGroup* group) {
  if (group->slices.empty()) return Discard(group);
  group->head_at = (*group->slices.begin())->eligible_at;
  heads.insert(group);
  if (by_key_) TakeKey(group);
  if (group->standing == Standing::kAside) {
    PlaceOf(group)->second.insert(group);
    return;
  }
  if (group->head_at > now_) {
    group->standing = Standing::kWaiting;
  } else if (group->standing == Standing::kWaiting) {
    Enter(group);
  } else {
    JoinLevel(group);
  }
}

// The last to have its turn.
void FairQueue::State::Enter(WaitingGroup* group) {
  group->standing = Standing::kReady;
  group->turn = ++turns_;
  group->credit = 0;
  if (by_key_ && group->key->ready == 0) {
    group->key->turn = ++turns_;
    group->key->credit = 0;
  }
  JoinLevel(group);
}

// It has been lifted.
void FairQueue::State::Discard(WaitingGroup* group) {
  if (group->standing == Standing::kAside) {
    const auto it = PlaceOf(group);
    if (it->second.empty()) (aside_.find(it->first) == it ? aside_ : opened_).erase(it);
    --groups_aside;
  }
  LeaveKey(group);
  groups.erase({group->priority, group->uid});
}

void FairQueue::State::Add(QueuedSlice added) {
  const auto known = slices.find(added.key);
  if (known != slices.end()) {
    const QueuedSlice& former = (*known)->slice;
    if (added.first < added.end && added.group == former.group &&
        added.priority == former.priority) {
      return Replace(known->get(), std::move(added));
    }
    Remove(added.key);
  }
  if (added.first >= added.end) return;
  std::unique_ptr<WaitingGroup>& group = groups[{added.priority, added.group}];
  if (group == nullptr) {
    group = std::make_unique<WaitingGroup>();
    group->uid = added.group;
    group->priority = added.priority;
  } else {
    Lift(group.get());
  }
  events += added.end - added.first;
  auto slice = std::make_unique<WaitingSlice>();
  slice->slice = std::move(added);
  slice->eligible_at = EligibleAt(slice->slice);
  slice->group = group.get();
  group->slices.insert(slice.get());
  slices.insert(std::move(slice));
  Settle(group.get());
}

// The group keeps its place.
void FairQueue::State::Replace(WaitingSlice* slice, QueuedSlice added) {
  WaitingGroup* group = slice->group;
  Lift(group);
  group->slices.erase(slice);
  events -= slice->slice.end - slice->slice.first;
  events += added.end - added.first;
  slice->slice = std::move(added);
  slice->eligible_at = EligibleAt(slice->slice);
  group->slices.insert(slice);
  Settle(group);
}

bool FairQueue::State::Remove(absl::string_view key) {
  const auto it = slices.find(key);
  if (it == slices.end()) return false;
  WaitingSlice* slice = it->get();
  WaitingGroup* group = slice->group;
  Lift(group);
  group->slices.erase(slice);
  events -= slice->slice.end - slice->slice.first;
  slices.erase(it);
  Settle(group);
  return true;
}

void FairQueue::State::Advance(absl::string_view key, uint64_t taken) {
  const auto it = slices.find(key);
  if (it == slices.end() || taken == 0) return;
  WaitingSlice* slice = it->get();
  WaitingGroup* group = slice->group;
  taken = std::min(taken, slice->slice.end - slice->slice.first);
  Lift(group);
  group->slices.erase(slice);
  events -= taken;
  slice->slice.first += taken;
  if (slice->slice.first < slice->slice.end) {
    slice->eligible_at = EligibleAt(slice->slice);
    group->slices.insert(slice);
  } else {
    slices.erase(it);
  }
  uint64_t& credit = by_key_ ? group->key->credit : group->credit;
  if (credit > 0) {
    credit -= std::min(credit, taken);
    if (credit == 0) {
      group->turn = ++turns_;
      if (by_key_) MoveLast(group->key);
    }
  }
  Settle(group);
}

// Makes groups ready whose first event has become eligible, in the order of its time.
void FairQueue::State::Refresh(absl::Time now) {
  if (now <= now_) return;
  const absl::Time before = std::exchange(now_, now);
  for (auto it = heads.upper_bound(before); it != heads.end() && (*it)->head_at <= now; ++it) {
    if ((*it)->standing == Standing::kWaiting) Enter(*it);
  }
}

// There are as many levels as priorities: few.
FairQueue::State::First FairQueue::State::FirstOfAll(Fairness fairness) const {
  First first;
  for (const auto& [priority, level] : levels_) {
    const uint8_t its_class = ClassOf(priority, level);
    if (first.group != nullptr && its_class > first.its_class) continue;
    if (first.group == nullptr || its_class < first.its_class)
      first = First{.its_class = its_class};
    if (fairness == Fairness::kByKey) {
      first.class_groups += level.by_key.size();
      WaitingGroup* group = *level.by_key.begin()->second.begin();
      const auto turn = [](const WaitingGroup* of) { return std::pair(of->key->turn, of->turn); };
      if (first.group == nullptr || turn(group) < turn(first.group)) first.group = group;
      continue;
    }
    first.class_groups += level.by_turn.size();
    if (fairness == Fairness::kBySchedule) {
      WaitingGroup* group = *level.by_turn.begin();
      if (first.group == nullptr || TurnOrder()(group, first.group)) first.group = group;
      continue;
    }
    WaitingGroup* group = *level.by_head.begin();
    const bool better = first.group == nullptr || HeadOrder()(group, first.group);
    if (better && first.group != nullptr) first.next_head_at = first.group->head_at;
    if (!better) first.next_head_at = std::min(first.next_head_at, group->head_at);
    if (!better) continue;
    first.group = group;
    if (level.by_head.size() > 1)
      first.next_head_at =
          std::min(first.next_head_at, (*std::next(level.by_head.begin()))->head_at);
  }
  return first;
}

std::optional<FairQueue::Turn> FairQueue::State::Next(
    absl::Time now, Fairness fairness, uint64_t tokens,
    absl::FunctionRef<std::string(const QueuedSlice&)> passed_over) {
  TurnByKey(fairness == Fairness::kByKey);
  Refresh(now);
  if (tokens == 0) return std::nullopt;
  while (!levels_.empty()) {
    const First first = FirstOfAll(fairness);
    WaitingGroup& group = *first.group;
    const QueuedSlice& slice = (*group.slices.begin())->slice;
    if (std::string reason = passed_over(slice); !reason.empty()) {
      SetAside(&group, std::move(reason));
      continue;
    }
    absl::Time until = now_;
    if (fairness == Fairness::kFifo) {
      // Not before others that became eligible earlier than its later events.
      until = std::min(until, first.next_head_at);
      if (group.slices.size() > 1)
        until = std::min(until, (*std::next(group.slices.begin()))->eligible_at);
    }
    uint64_t count = std::min(tokens, std::min(slice.pacing.EndAt(until), slice.end) - slice.first);
    if (fairness != Fairness::kFifo) {
      const uint64_t share = std::max<uint64_t>(1, tokens / first.class_groups);
      const uint64_t quantum = quanta_.try_emplace(first.its_class, share).first->second;
      uint64_t& credit = by_key_ ? group.key->credit : group.credit;
      credit = credit == 0 ? quantum : std::min(credit, quantum);
      count = std::min(count, credit);
    }
    return Turn{&slice, count};
  }
  return std::nullopt;
}

void FairQueue::State::SetAside(WaitingGroup* group, std::string reason) {
  LeaveLevel(group);
  group->standing = Standing::kAside;
  const auto it = aside_.try_emplace(std::move(reason)).first;
  group->reason = &it->first;
  it->second.insert(group);
  ++groups_aside;
}

FairQueue::State::Aside::iterator FairQueue::State::PlaceOf(WaitingGroup* group) {
  const auto it = aside_.find(*group->reason);
  return it != aside_.end() && &it->first == group->reason ? it : opened_.find(*group->reason);
}

// It is in no set of groups that stand aside any more.
void FairQueue::State::TakePart(WaitingGroup* group) {
  --groups_aside;
  group->standing = Standing::kWaiting;
  if (group->head_at <= now_) Enter(group);
}

bool FairQueue::State::All(Aside& aside, absl::string_view reason, State& state) {
  const auto it = aside.find(reason);
  if (it == aside.end()) return false;
  for (WaitingGroup* group : std::exchange(it->second, {})) state.TakePart(group);
  aside.erase(it);
  return true;
}

bool FairQueue::State::Reconsider(absl::string_view reason) {
  const bool opened = All(opened_, reason, *this);
  return All(aside_, reason, *this) || opened;
}

void FairQueue::State::ReconsiderAll() {
  while (!opened_.empty()) All(opened_, std::string(opened_.begin()->first), *this);
  while (!aside_.empty()) All(aside_, std::string(aside_.begin()->first), *this);
}

FairQueue::Woken FairQueue::State::Wake(absl::string_view reason, size_t max) {
  auto it = opened_.find(reason);
  if (it == opened_.end()) {
    const auto aside = aside_.find(reason);
    if (aside == aside_.end()) return {};
    // The node moves as it is: `reason` of its groups stays right.
    it = opened_.insert(aside_.extract(aside)).position;
  }
  Woken woken;
  for (; woken.groups < max && !it->second.empty(); ++woken.groups) {
    WaitingGroup* const group = *it->second.begin();
    it->second.erase(it->second.begin());
    TakePart(group);
  }
  woken.more = !it->second.empty();
  if (!woken.more) opened_.erase(it);
  return woken;
}

std::optional<absl::Time> FairQueue::State::NextEligible(absl::Time now) {
  Refresh(now);
  const auto it = heads.upper_bound(now_);
  if (it == heads.end() || (*it)->head_at == absl::InfiniteFuture()) return std::nullopt;
  return (*it)->head_at;
}

std::optional<absl::Time> FairQueue::State::NextChange(absl::Time now) {
  std::optional<absl::Time> next = NextEligible(now);
  for (const auto& [priority, level] : levels_) {
    const uint8_t its_class = ClassOf(priority, level);
    if (its_class == 0) continue;
    const absl::Time rises =
        (*level.by_head.begin())->head_at + kAgeingStep * (priority - its_class + 1);
    next = std::min(next.value_or(rises), rises);
  }
  return next;
}

uint64_t FairQueue::State::EligibleEvents(absl::Time now) const {
  uint64_t eligible = 0;
  for (auto group = heads.begin(); group != heads.end() && (*group)->head_at <= now; ++group) {
    for (const WaitingSlice* slice : (*group)->slices) {
      if (slice->eligible_at > now) break;
      const QueuedSlice& queued = slice->slice;
      eligible += std::min(queued.pacing.EndAt(now), queued.end) - queued.first;
    }
  }
  return eligible;
}

FairQueue::FairQueue() = default;
FairQueue::~FairQueue() = default;
FairQueue::FairQueue(FairQueue&&) noexcept = default;
FairQueue& FairQueue::operator=(FairQueue&&) noexcept = default;

void FairQueue::Add(QueuedSlice slice) {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  state_->Add(std::move(slice));
  if (state_->slices.empty()) state_ = nullptr;
}

bool FairQueue::Remove(absl::string_view key) {
  if (state_ == nullptr || !state_->Remove(key)) return false;
  if (state_->slices.empty()) state_ = nullptr;
  return true;
}

void FairQueue::Advance(absl::string_view key, uint64_t taken) {
  if (state_ == nullptr) return;
  state_->Advance(key, taken);
  if (state_->slices.empty()) state_ = nullptr;
}

const QueuedSlice* FairQueue::Find(absl::string_view key) const {
  if (state_ == nullptr) return nullptr;
  const auto it = state_->slices.find(key);
  return it == state_->slices.end() ? nullptr : &(*it)->slice;
}

void FairQueue::BeginRound() {
  if (state_ != nullptr) state_->BeginRound();
}

std::optional<FairQueue::Turn> FairQueue::Next(
    absl::Time now, Fairness fairness, uint64_t tokens,
    absl::FunctionRef<std::string(const QueuedSlice& first)> passed_over) {
  if (state_ == nullptr) return std::nullopt;
  return state_->Next(now, fairness, tokens, passed_over);
}

bool FairQueue::Reconsider(absl::string_view reason) {
  return state_ != nullptr && state_->Reconsider(reason);
}

void FairQueue::ReconsiderAll() {
  if (state_ != nullptr) state_->ReconsiderAll();
}

FairQueue::Woken FairQueue::Wake(absl::string_view reason, size_t max) {
  return state_ == nullptr ? Woken() : state_->Wake(reason, max);
}

std::optional<absl::Time> FairQueue::NextEligible(absl::Time now) {
  return state_ == nullptr ? std::nullopt : state_->NextEligible(now);
}

std::optional<absl::Time> FairQueue::NextChange(absl::Time now) {
  return state_ == nullptr ? std::nullopt : state_->NextChange(now);
}

size_t FairQueue::rows() const { return state_ == nullptr ? 0 : state_->slices.size(); }
size_t FairQueue::groups() const { return state_ == nullptr ? 0 : state_->groups.size(); }
size_t FairQueue::groups_aside() const { return state_ == nullptr ? 0 : state_->groups_aside; }
uint64_t FairQueue::events() const { return state_ == nullptr ? 0 : state_->events; }

uint64_t FairQueue::EligibleEvents(absl::Time now) const {
  return state_ == nullptr ? 0 : state_->EligibleEvents(now);
}

std::optional<absl::Time> FairQueue::oldest_due() const {
  if (state_ == nullptr) return std::nullopt;
  return (*state_->heads.begin())->head_at;
}

}  // namespace escapement::token_manager
