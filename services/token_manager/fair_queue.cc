#include "services/token_manager/fair_queue.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"

namespace escapement::token_manager {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

struct Group;

struct Slice {
  QueuedSlice slice;
  absl::Time eligible_at;  // of its first event
  Group* group = nullptr;
};

struct SliceOrder {
  bool operator()(const Slice* a, const Slice* b) const {
    if (a->eligible_at != b->eligible_at) return a->eligible_at < b->eligible_at;
    return a->slice.key < b->slice.key;
  }
};

enum class Standing : uint8_t {
  kWaiting,  // nothing is eligible
  kReady,    // in the level of its priority
  kAside,    // passed over, whatever is eligible
};

struct Group {
  Uid uid;
  uint8_t priority = 0;
  Standing standing = Standing::kWaiting;
  uint64_t turn = 0;    // of kReady: place among those that take turns
  uint64_t credit = 0;  // of kReady: events left of the turn that it is having; 0: none
  absl::Time head_at;   // when its first event becomes (or became) eligible
  const std::string* reason = nullptr;  // of kAside: key in `aside_`
  absl::btree_set<Slice*, SliceOrder> slices;
};

bool IdLess(const Group* a, const Group* b) {
  return a->priority != b->priority ? a->priority < b->priority : a->uid < b->uid;
}

struct IdOrder {
  bool operator()(const Group* a, const Group* b) const { return IdLess(a, b); }
};

struct HeadOrder {
  using is_transparent = void;
  bool operator()(const Group* a, const Group* b) const {
    return a->head_at != b->head_at ? a->head_at < b->head_at : IdLess(a, b);
  }
  bool operator()(absl::Time a, const Group* b) const { return a < b->head_at; }
  bool operator()(const Group* a, absl::Time b) const { return a->head_at < b; }
};

struct TurnOrder {
  bool operator()(const Group* a, const Group* b) const { return a->turn < b->turn; }
};

// The ready groups of one priority. They grow older together.
struct Level {
  absl::btree_set<Group*, TurnOrder> by_turn;
  absl::btree_set<Group*, HeadOrder> by_head;
};

struct SliceHash {
  using is_transparent = void;
  size_t operator()(absl::string_view key) const { return absl::HashOf(key); }
  size_t operator()(const std::unique_ptr<Slice>& slice) const {
    return absl::HashOf(absl::string_view(slice->slice.key));
  }
};

struct SliceEq {
  using is_transparent = void;
  static absl::string_view Key(absl::string_view key) { return key; }
  static absl::string_view Key(const std::unique_ptr<Slice>& slice) { return slice->slice.key; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return Key(a) == Key(b);
  }
};

absl::Time EligibleAt(const QueuedSlice& slice) {
  return std::max(slice.due, slice.pacing.At(slice.first));
}

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
                           absl::FunctionRef<std::string(const Uid&)> passed_over);
  bool Reconsider(absl::string_view reason);
  void ReconsiderAll();
  std::optional<absl::Time> NextEligible(absl::Time now);
  std::optional<absl::Time> NextChange(absl::Time now);

  absl::flat_hash_set<std::unique_ptr<Slice>, SliceHash, SliceEq> slices;
  absl::flat_hash_map<std::pair<uint8_t, Uid>, std::unique_ptr<Group>> groups;
  absl::btree_set<Group*, HeadOrder> heads;
  size_t groups_aside = 0;
  uint64_t events = 0;

 private:
  using Levels = absl::btree_map<uint8_t, Level>;
  using Aside = std::map<std::string, absl::btree_set<Group*, IdOrder>, std::less<>>;
  struct First {
    Group* group = nullptr;
    uint8_t its_class = 0;
    size_t class_groups = 0;
    // kFifo: when the first event of the next group of the class became eligible.
    absl::Time next_head_at = absl::InfiniteFuture();
  };

  void Replace(Slice* slice, QueuedSlice added);
  void Refresh(absl::Time now);
  uint8_t ClassOf(uint8_t priority, const Level& level) const;
  First FirstOfAll(Fairness fairness) const;
  void Lift(Group* group);
  void Settle(Group* group);
  void Enter(Group* group);
  void LeaveLevel(Group* group);
  void Discard(Group* group);
  void SetAside(Group* group, std::string reason);
  void Reconsider(Aside::iterator it);

  absl::Time now_ = absl::InfinitePast();
  uint64_t turns_ = 0;
  Levels levels_;                              // none is empty
  absl::btree_map<uint8_t, uint64_t> quanta_;  // of this round: class → events of a turn
  Aside aside_;
};

// Its effective priority.
uint8_t FairQueue::State::ClassOf(uint8_t priority, const Level& level) const {
  absl::Duration rest;
  const int64_t steps =
      absl::IDivDuration(now_ - (*level.by_head.begin())->head_at, kAgeingStep, &rest);
  return static_cast<uint8_t>(priority - std::min<int64_t>(steps, priority));
}

void FairQueue::State::LeaveLevel(Group* group) {
  const auto it = levels_.find(group->priority);
  it->second.by_turn.erase(group);
  it->second.by_head.erase(group);
  if (it->second.by_turn.empty()) levels_.erase(it);
}

void FairQueue::State::Lift(Group* group) {
  heads.erase(group);
  if (group->standing == Standing::kReady) LeaveLevel(group);
}

void FairQueue::State::Settle(Group* group) {
  if (group->slices.empty()) return Discard(group);
  group->head_at = (*group->slices.begin())->eligible_at;
  heads.insert(group);
  if (group->standing == Standing::kAside) return;
  if (group->head_at > now_) {
    group->standing = Standing::kWaiting;
  } else if (group->standing == Standing::kWaiting) {
    Enter(group);
  } else {
    Level& level = levels_[group->priority];
    level.by_turn.insert(group);
    level.by_head.insert(group);
  }
}

// The last to have its turn.
void FairQueue::State::Enter(Group* group) {
  group->standing = Standing::kReady;
  group->turn = ++turns_;
  group->credit = 0;
  Level& level = levels_[group->priority];
  level.by_turn.insert(group);
  level.by_head.insert(group);
}

// It has been lifted.
void FairQueue::State::Discard(Group* group) {
  if (group->standing == Standing::kAside) {
    const auto it = aside_.find(*group->reason);
    it->second.erase(group);
    if (it->second.empty()) aside_.erase(it);
    --groups_aside;
  }
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
  std::unique_ptr<Group>& group = groups[{added.priority, added.group}];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->uid = added.group;
    group->priority = added.priority;
  } else {
    Lift(group.get());
  }
  events += added.end - added.first;
  auto slice = std::make_unique<Slice>();
  slice->slice = std::move(added);
  slice->eligible_at = EligibleAt(slice->slice);
  slice->group = group.get();
  group->slices.insert(slice.get());
  slices.insert(std::move(slice));
  Settle(group.get());
}

// The group keeps its place.
void FairQueue::State::Replace(Slice* slice, QueuedSlice added) {
  Group* group = slice->group;
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
  Slice* slice = it->get();
  Group* group = slice->group;
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
  Slice* slice = it->get();
  Group* group = slice->group;
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
  if (group->credit > 0) {
    group->credit -= std::min(group->credit, taken);
    if (group->credit == 0) group->turn = ++turns_;
  }
  Settle(group);
}

// What has become eligible, in the order of its time.
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
    first.class_groups += level.by_turn.size();
    if (fairness == Fairness::kBySchedule) {
      Group* group = *level.by_turn.begin();
      if (first.group == nullptr || TurnOrder()(group, first.group)) first.group = group;
      continue;
    }
    Group* group = *level.by_head.begin();
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
    absl::FunctionRef<std::string(const Uid&)> passed_over) {
  Refresh(now);
  if (tokens == 0) return std::nullopt;
  while (!levels_.empty()) {
    const First first = FirstOfAll(fairness);
    Group& group = *first.group;
    if (std::string reason = passed_over(group.uid); !reason.empty()) {
      SetAside(&group, std::move(reason));
      continue;
    }
    const QueuedSlice& slice = (*group.slices.begin())->slice;
    absl::Time until = now_;
    if (fairness == Fairness::kFifo) {
      // Not before others that became eligible earlier than its later events.
      until = std::min(until, first.next_head_at);
      if (group.slices.size() > 1)
        until = std::min(until, (*std::next(group.slices.begin()))->eligible_at);
    }
    uint64_t count = std::min(tokens, std::min(slice.pacing.EndAt(until), slice.end) - slice.first);
    if (fairness == Fairness::kBySchedule) {
      const uint64_t share = std::max<uint64_t>(1, tokens / first.class_groups);
      const uint64_t quantum = quanta_.try_emplace(first.its_class, share).first->second;
      group.credit = group.credit == 0 ? quantum : std::min(group.credit, quantum);
      count = std::min(count, group.credit);
    }
    return Turn{&slice, count};
  }
  return std::nullopt;
}

void FairQueue::State::SetAside(Group* group, std::string reason) {
  LeaveLevel(group);
  group->standing = Standing::kAside;
  const auto it = aside_.try_emplace(std::move(reason)).first;
  group->reason = &it->first;
  it->second.insert(group);
  ++groups_aside;
}

void FairQueue::State::Reconsider(Aside::iterator it) {
  const auto back = std::move(aside_.extract(it).mapped());
  groups_aside -= back.size();
  for (Group* group : back) {
    group->standing = Standing::kWaiting;
    if (group->head_at <= now_) Enter(group);
  }
}

bool FairQueue::State::Reconsider(absl::string_view reason) {
  const auto it = aside_.find(reason);
  if (it == aside_.end()) return false;
  Reconsider(it);
  return true;
}

void FairQueue::State::ReconsiderAll() {
  while (!aside_.empty()) Reconsider(aside_.begin());
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
    absl::FunctionRef<std::string(const Uid& group)> passed_over) {
  if (state_ == nullptr) return std::nullopt;
  return state_->Next(now, fairness, tokens, passed_over);
}

bool FairQueue::Reconsider(absl::string_view reason) {
  return state_ != nullptr && state_->Reconsider(reason);
}

void FairQueue::ReconsiderAll() {
  if (state_ != nullptr) state_->ReconsiderAll();
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

std::optional<absl::Time> FairQueue::oldest_due() const {
  if (state_ == nullptr) return std::nullopt;
  return (*state_->heads.begin())->head_at;
}

}  // namespace escapement::token_manager
