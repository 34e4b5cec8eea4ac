#include "services/token_manager/turns/fair_queue.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "absl/numeric/int128.h"

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

bool FairQueue::SliceOrder::operator()(const Slice* a, const Slice* b) const {
  return std::tie(a->eligible_at, a->key) < std::tie(b->eligible_at, b->key);
}

bool FairQueue::AgeOrder::operator()(const Group* a, const Group* b) const {
  const auto order = [](const Group* of) {
    return std::tuple(of->aside_opened, of->head_at + kAgeingStep * of->id.first, of->id);
  };
  return order(a) < order(b);
}

bool FairQueue::HeadOrder::operator()(const Group* a, const Group* b) const {
  return std::tie(a->head_at, a->id) < std::tie(b->head_at, b->id);
}

void FairQueue::JoinLevel(Group* group) {
  Level& level = levels_[group->id.first];
  level.by_turn[KeyTurn(*group)].insert(group);
  level.by_head.insert(group);
  if (by_key_) ++group->key->second.ready;
}

void FairQueue::LeaveLevel(Group* group) {
  Level& level = levels_[group->id.first];
  const auto of_key = level.by_turn.find(KeyTurn(*group));
  of_key->second.erase(group);
  if (of_key->second.empty()) level.by_turn.erase(of_key);
  level.by_head.erase(group);
  if (by_key_) --group->key->second.ready;
}

void FairQueue::TurnByKey(bool by_key) {
  if (by_key == by_key_) return;
  std::vector<Group*> ready;
  for (Group* group : heads_) {
    if (group->standing == Standing::kReady) ready.push_back(group);
  }
  std::sort(ready.begin(), ready.end(), TurnOrder());
  for (Group* group : ready) LeaveLevel(group);
  by_key_ = by_key;
  for (Group* group : heads_) by_key ? TakeKey(group) : LeaveKey(group);
  for (Group* group : ready) Enter(group);
}

// It is in no level.
void FairQueue::TakeKey(Group* group) {
  const std::string& name = (*group->slices.begin())->policy_key;
  if (group->key != nullptr && group->key->first == name) return;
  LeaveKey(group);
  group->key = &*keys_.try_emplace(name).first;
  if (++group->key->second.groups == 1) group->key->second.turn = ++turns_;
}

void FairQueue::LeaveKey(Group* group) {
  auto* const key = std::exchange(group->key, nullptr);
  if (key != nullptr && --key->second.groups == 0) keys_.erase(keys_.find(key->first));
}

void FairQueue::MoveLast(Key& key) {
  const uint64_t former = std::exchange(key.turn, ++turns_);
  for (auto& [priority, level] : levels_) {
    auto groups_of_key = level.by_turn.extract(former);
    if (groups_of_key.empty()) continue;
    level.by_turn.emplace(key.turn, std::move(groups_of_key.mapped()));
  }
}

void FairQueue::Lift(Group* group) {
  heads_.erase(group);
  if (group->standing == Standing::kReady) LeaveLevel(group);
  if (group->standing == Standing::kAside) group->aside->second.groups.erase(group);
}

void FairQueue::Settle(Group* group) {
  if (group->slices.empty()) return Discard(group);
  group->head_at = (*group->slices.begin())->eligible_at;
  heads_.insert(group);
  if (by_key_) TakeKey(group);
  if (group->standing == Standing::kAside) {
    group->aside->second.groups.insert(group);
  } else if (group->head_at > now_) {
    group->standing = Standing::kWaiting;
  } else if (group->standing == Standing::kWaiting) {
    Enter(group);
  } else {
    JoinLevel(group);
  }
}

// The last to have its turn.
void FairQueue::Enter(Group* group) {
  group->standing = Standing::kReady;
  group->turn = ++turns_;
  group->credit = 0;
  if (by_key_ && group->key->second.ready == 0) {
    group->key->second.turn = ++turns_;
    group->key->second.credit = 0;
  }
  JoinLevel(group);
}

// It has been lifted.
void FairQueue::Discard(Group* group) {
  if (group->standing == Standing::kAside) {
    if (group->aside->second.groups.empty()) aside_.erase(group->aside);
    --groups_aside_;
  }
  LeaveKey(group);
  groups_.erase(groups_.find(group->id));
  if (groups_.empty()) *this = FairQueue();
}

void FairQueue::Add(QueuedSlice added) {
  const auto known = slices_.find(added.key);
  Group* const former = known == slices_.end() ? nullptr : TakeOut(known);
  Group* group = nullptr;
  if (added.first < added.end) {
    group = &groups_.try_emplace(added.group, Group{.id = added.group}).first->second;
  }
  if (former != nullptr && former != group) Settle(former);
  if (group == nullptr) return;
  events_ += added.end - added.first;
  const absl::Time eligible_at = EligibleAt(added);
  auto owned = std::make_unique<Slice>(Slice{std::move(added), eligible_at, group});
  Slice* const slice = owned.get();
  group->slices.insert(group->slices.end(), slice);  // rows mostly come in their order
  slices_.emplace(slice->key, std::move(owned));
  if (former != group) {
    if (*group->slices.begin() != slice) return;  // the group's place is that of its first slice
    Lift(group);
  }
  Settle(group);
}

// The slice is gone, and its group, which it returns, is lifted.
FairQueue::Group* FairQueue::TakeOut(Slices::iterator slice) {
  Group* const group = slice->second->group;
  Lift(group);
  group->slices.erase(slice->second.get());
  events_ -= slice->second->end - slice->second->first;
  slices_.erase(slice);
  return group;
}

void FairQueue::Remove(absl::string_view key) {
  const auto known = slices_.find(key);
  if (known != slices_.end()) Settle(TakeOut(known));
}

void FairQueue::Advance(absl::string_view key, uint64_t taken) {
  const auto it = slices_.find(key);
  if (it == slices_.end() || taken == 0) return;
  Slice* slice = it->second.get();
  Group* group = slice->group;
  taken = std::min(taken, slice->end - slice->first);
  events_ -= taken;
  slice->first += taken;
  const bool ends = slice->first == slice->end;
  const absl::Time eligible_at = EligibleAt(*slice);
  if (ends || eligible_at != slice->eligible_at) {
    const auto first = group->slices.begin();
    group->slices.erase(*first == slice ? first : group->slices.find(slice));
    slice->eligible_at = eligible_at;
    if (!ends) group->slices.insert(slice);
  }
  if (ends) slices_.erase(it);
  uint64_t& credit = Credit(*group);
  const bool turn_ends = credit > 0 && credit <= taken;
  credit -= std::min(credit, taken);
  if (!turn_ends && KeepsPlace(*group)) return;
  Lift(group);
  if (turn_ends) {
    group->turn = ++turns_;
    if (by_key_) MoveLast(group->key->second);
  }
  Settle(group);
}

// Its first slice leaves it where it is.
bool FairQueue::KeepsPlace(const Group& group) const {
  if (group.slices.empty()) return false;
  const Slice& first = **group.slices.begin();
  return first.eligible_at == group.head_at && (!by_key_ || first.policy_key == group.key->first);
}

const QueuedSlice* FairQueue::Find(absl::string_view key) const {
  const auto it = slices_.find(key);
  return it == slices_.end() ? nullptr : it->second.get();
}

// Makes groups ready whose first event has become eligible, in the order of its time.
void FairQueue::Refresh(absl::Time now) {
  if (now <= now_) return;
  const absl::Time before = std::exchange(now_, now);
  for (auto it = heads_.upper_bound(before); it != heads_.end() && (*it)->head_at <= now; ++it) {
    if ((*it)->standing == Standing::kWaiting) Enter(*it);
  }
}

// There are as many levels as priorities: few.
FairQueue::First FairQueue::FirstOfAll(Fairness fairness) const {
  First first;
  for (const auto& [priority, level] : levels_) {
    if (level.by_head.empty()) continue;
    const uint8_t its_class = AgedPriority(priority, now_ - (*level.by_head.begin())->head_at);
    if (first.group != nullptr && its_class > first.its_class) continue;
    if (first.group == nullptr || its_class < first.its_class)
      first = First{.its_class = its_class};
    if (fairness != Fairness::kFifo) {
      first.takers += by_key_ ? level.by_turn.size() : level.by_head.size();
      Group* group = *level.by_turn.begin()->second.begin();
      const auto turn = [](const Group* of) { return std::pair(KeyTurn(*of), of->turn); };
      if (first.group == nullptr || turn(group) < turn(first.group)) first.group = group;
      continue;
    }
    auto next = level.by_head.begin();
    for (int n = 0; n < 2 && next != level.by_head.end(); ++n, ++next) {
      Group* group = *next;
      if (first.group == nullptr || HeadOrder()(group, first.group)) std::swap(group, first.group);
      if (group != nullptr) first.next_head_at = std::min(first.next_head_at, group->head_at);
    }
  }
  return first;
}

std::optional<FairQueue::Turn> FairQueue::Next(
    absl::Time now, Fairness fairness, uint64_t tokens,
    absl::FunctionRef<std::string(const QueuedSlice&)> passed_over) {
  if (empty()) return std::nullopt;
  TurnByKey(fairness == Fairness::kByKey);
  Refresh(now);
  if (tokens == 0) return std::nullopt;
  while (true) {
    const First first = FirstOfAll(fairness);
    if (first.group == nullptr) return std::nullopt;
    Group& group = *first.group;
    const Slice& slice = **group.slices.begin();
    if (std::string reason = passed_over(slice); !reason.empty()) {
      SetAside(&group, std::move(reason));
      continue;
    }
    absl::Time until = now_;
    uint64_t count = tokens;
    if (fairness == Fairness::kFifo) {
      // Not before others that became eligible earlier than its later events.
      until = std::min(until, first.next_head_at);
      if (group.slices.size() > 1)
        until = std::min(until, (*std::next(group.slices.begin()))->eligible_at);
    } else {
      const uint64_t share = std::max<uint64_t>(1, tokens / first.takers);
      const uint64_t quantum = quanta_.try_emplace(first.its_class, share).first->second;
      uint64_t& credit = Credit(group);
      credit = credit == 0 ? quantum : std::min(credit, quantum);
      count = std::min(count, credit);
    }
    return Turn{&slice,
                std::min(count, std::min(slice.pacing.EndAt(until), slice.end) - slice.first)};
  }
}

void FairQueue::SetAside(Group* group, std::string reason) {
  LeaveLevel(group);
  group->standing = Standing::kAside;
  group->aside = aside_.try_emplace(std::move(reason)).first;
  group->aside_opened = group->aside->second.opened;
  group->aside->second.groups.insert(group);
  ++groups_aside_;
}

void FairQueue::Reconsider(absl::string_view reason) {
  while (Wake(reason, kMax).groups > 0) {
  }
}

void FairQueue::ReconsiderAll() {
  while (!aside_.empty()) Reconsider(std::string(aside_.begin()->first));
}

FairQueue::Woken FairQueue::Wake(absl::string_view reason, size_t max) {
  const auto it = aside_.find(reason);
  if (it == aside_.end()) return {};
  auto& [opened, groups] = it->second;
  if ((*groups.begin())->aside_opened == opened) ++opened;
  Woken woken{.more = true};
  for (; woken.more && woken.groups < max; ++woken.groups) {
    Group* const group = *groups.begin();
    groups.erase(groups.begin());
    --groups_aside_;
    group->standing = Standing::kWaiting;
    if (group->head_at <= now_) Enter(group);
    woken.more = !groups.empty() && (*groups.begin())->aside_opened < opened;
  }
  if (groups.empty()) aside_.erase(it);
  return woken;
}

absl::Time FairQueue::NextEligible(absl::Time now) {
  if (empty()) return absl::InfiniteFuture();
  Refresh(now);
  const auto it = heads_.upper_bound(now_);
  return it == heads_.end() ? absl::InfiniteFuture() : (*it)->head_at;
}

uint64_t FairQueue::EligibleEvents(absl::Time now) const {
  uint64_t eligible = 0;
  for (auto group = heads_.begin(); group != heads_.end() && (*group)->head_at <= now; ++group) {
    for (const Slice* slice : (*group)->slices) {
      if (slice->eligible_at > now) break;
      eligible += std::min(slice->pacing.EndAt(now), slice->end) - slice->first;
    }
  }
  return eligible;
}

}  // namespace escapement::token_manager
