#include "common/kv/engine/overlay.h"

#include <new>

#include "common/base/hash.h"

namespace escapement::kv {

namespace {

// To index the effects of a large batch costs as much as some fifty searches.
constexpr int kSearchesMax = 8;

}  // namespace

void Overlay::Put(ColumnFamily cf, absl::string_view key, absl::string_view value) {
  families_[static_cast<size_t>(cf)].effects.push_back({Effect::Kind::kPut, key, value});
}

void Overlay::Delete(ColumnFamily cf, absl::string_view key) {
  families_[static_cast<size_t>(cf)].effects.push_back({Effect::Kind::kDelete, key, {}});
}

void Overlay::DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) {
  families_[static_cast<size_t>(cf)].effects.push_back({Effect::Kind::kDeleteRange, begin, end});
}

void Overlay::Clear() {
  for (Family& family : families_) {
    if (family.effects.empty()) continue;
    family.effects.clear();
    family.indexed = 0;
    family.searches = 0;
    family.points.clear();
    family.ranges.clear();
  }
}

Overlay::Family& Overlay::Indexed(ColumnFamily cf) {
  Family& family = families_[static_cast<size_t>(cf)];
  for (; family.indexed < family.effects.size(); ++family.indexed) {
    const Effect& effect = family.effects[family.indexed];
    switch (effect.kind) {
      case Effect::Kind::kPut:
        family.points.insert_or_assign(effect.key, Point{true, effect.value});
        break;
      case Effect::Kind::kDelete:
        family.points.insert_or_assign(effect.key, Point{false, {}});
        break;
      case Effect::Kind::kDeleteRange:
        family.points.erase(family.points.lower_bound(effect.key),
                            family.points.lower_bound(effect.value));
        family.ranges.emplace_back(effect.key, effect.value);
        break;
    }
  }
  return family;
}

bool Overlay::InRanges(const Family& family, absl::string_view key) {
  for (const auto& [begin, end] : family.ranges) {
    if (key >= begin && key < end) return true;
  }
  return false;
}

Overlay::Found Overlay::Search(const Family& family, absl::string_view key,
                               absl::string_view& value) {
  for (auto effect = family.effects.rbegin(); effect != family.effects.rend(); ++effect) {
    if (effect->kind == Effect::Kind::kDeleteRange) {
      if (key >= effect->key && key < effect->value) return Found::kAbsent;
    } else if (effect->key == key) {
      value = effect->value;
      return effect->kind == Effect::Kind::kPut ? Found::kPresent : Found::kAbsent;
    }
  }
  return Found::kInBase;
}

Overlay::Found Overlay::Find(ColumnFamily cf, absl::string_view key, absl::string_view& value) {
  Family& listed = families_[static_cast<size_t>(cf)];
  if (listed.effects.empty()) return Found::kInBase;
  if (listed.searches < kSearchesMax) {
    ++listed.searches;
    return Search(listed, key, value);
  }
  const Family& family = Indexed(cf);
  if (auto point = family.points.find(key); point != family.points.end()) {
    value = point->second.value;
    return point->second.present ? Found::kPresent : Found::kAbsent;
  }
  return InRanges(family, key) ? Found::kAbsent : Found::kInBase;
}

bool Overlay::Get(ColumnFamily cf, absl::string_view key, absl::string_view& value) {
  const Found found = Find(cf, key, value);
  if (found != Found::kInBase) return found == Found::kPresent;
  if (!base_->Get(cf, key, scratch_)) return false;
  value = scratch_;
  return true;
}

bool Overlay::Get(ColumnFamily cf, absl::string_view key, std::string& value) {
  absl::string_view found_value;
  const Found found = Find(cf, key, found_value);
  if (found == Found::kInBase) return base_->Get(cf, key, value);
  if (found == Found::kPresent) value.assign(found_value.data(), found_value.size());
  return found == Found::kPresent;
}

void Overlay::ForEachKey(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                         absl::FunctionRef<bool(absl::string_view)> visit) {
  ForEach(cf, begin, end,
          [&visit](absl::string_view key, absl::string_view) { return visit(key); });
}

void Overlay::ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                      Visitor visit) {
  const Family& family = Indexed(cf);
  auto point = family.points.lower_bound(begin);
  const auto points_end = end.empty() ? family.points.end() : family.points.lower_bound(end);
  bool stopped = false;
  // Visits the overlay's own keys below `bound`; all remaining keys if `bound` is null.
  auto visit_points = [&](const absl::string_view* bound) {
    for (; !stopped && point != points_end && (bound == nullptr || point->first < *bound);
         ++point) {
      if (point->second.present) stopped = !visit(point->first, point->second.value);
    }
  };
  base_->ForEach(cf, begin, end, [&](absl::string_view key, absl::string_view value) {
    visit_points(&key);
    if (stopped) return false;
    const bool hidden = (point != points_end && point->first == key) || InRanges(family, key);
    // If the overlay has the key too, the next round visits it as the overlay's.
    if (!hidden) stopped = !visit(key, value);
    return !stopped;
  });
  visit_points(nullptr);
}

namespace {

// Range deletes are rare, because a delete of few keys becomes single deletes. 64 keeps the search
// short.
constexpr size_t kRangesMax = 64;

}  // namespace

RecentWrites::RecentWrites(int slots_log2, CommitSeq start_seq)
    : start_seq_(start_seq), mask_((size_t{1} << slots_log2) - 1) {
  for (Family& family : families_) {
    // calloc: pages of large arrays take no memory until they are touched.
    auto* slots = static_cast<CommitSeq*>(std::calloc(mask_ + 1, sizeof(CommitSeq)));
    if (slots == nullptr) throw std::bad_alloc();
    family.slots.reset(slots);
    family.forgotten = start_seq;
  }
}

size_t RecentWrites::SlotOf(absl::string_view key) const { return StableHash64(key) & mask_; }

void RecentWrites::Touch(ColumnFamily cf, absl::string_view key, CommitSeq seq) {
  families_[static_cast<size_t>(cf)].slots[SlotOf(key)] = seq;
}

void RecentWrites::TouchRange(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                              CommitSeq seq) {
  Family& family = families_[static_cast<size_t>(cf)];
  if (family.ranges.size() == kRangesMax) {
    family.forgotten = family.ranges.front().seq;
    family.ranges.pop_front();
  }
  family.ranges.push_back({std::string(begin), std::string(end), seq});
}

bool RecentWrites::UnchangedSince(ColumnFamily cf, absl::string_view key, CommitSeq since) const {
  if (since < start_seq_) return false;
  const Family& family = families_[static_cast<size_t>(cf)];
  if (since < family.forgotten) return false;
  if (family.slots[SlotOf(key)] > since) return false;
  for (auto range = family.ranges.rbegin(); range != family.ranges.rend() && range->seq > since;
       ++range) {
    if (key >= range->begin && (range->end.empty() || key < range->end)) return false;
  }
  return true;
}

}  // namespace escapement::kv
