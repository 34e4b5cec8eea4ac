#include "common/kv/engine/watch_hub.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace escapement::kv {
namespace {

// Closed watches are removed once in this many commits.
constexpr uint64_t kSweepEvery = 256;

absl::Status Validate(const WatchHub::Watcher& watcher) {
  if (static_cast<size_t>(watcher.cf) >= kColumnFamilyCount)
    return absl::InvalidArgumentError("unknown column family");
  if (watcher.ranges.size() > kWatchRangesMax)
    return absl::InvalidArgumentError("a watch of too many ranges");
  for (size_t i = 1; i < watcher.ranges.size(); ++i) {
    if (watcher.ranges[i].begin <= watcher.ranges[i - 1].begin)
      return absl::InvalidArgumentError("the ranges of a watch are not ascending");
  }
  return absl::OkStatus();
}

bool BelowEnd(absl::string_view key, const KeyRange& range) {
  return range.end.empty() || key < range.end;
}

// The last range that begins at or before `key`: only this one can hold the key. Null if there is
// none.
const KeyRange* RangeOf(const std::vector<KeyRange>& ranges, absl::string_view key) {
  // Most keys of other watches are before or behind all ranges.
  if (key >= ranges.back().begin) return &ranges.back();
  if (key < ranges.front().begin) return nullptr;
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), key,
                       [](absl::string_view k, const KeyRange& range) { return k < range.begin; });
  return &*std::prev(behind);
}

bool TouchesRange(const std::vector<KeyRange>& ranges, absl::string_view begin,
                  absl::string_view end) {
  for (size_t i = 0; i < ranges.size() && ranges[i].begin < end; ++i) {
    const bool before_next = i + 1 == ranges.size() || begin < ranges[i + 1].begin;
    if (before_next && BelowEnd(begin, ranges[i])) return true;
  }
  return false;
}

bool Touches(const WatchHub::Watcher& watcher, const Mutation& mutation) {
  if (mutation.cf != watcher.cf) return false;
  if (mutation.kind == Mutation::Kind::kDeleteRange)
    return TouchesRange(watcher.ranges, mutation.key, mutation.value);
  const KeyRange* range = RangeOf(watcher.ranges, mutation.key);
  return range != nullptr && BelowEnd(mutation.key, *range);
}

WatchedMutation Watched(const Mutation& mutation, const std::string& value) {
  WatchedMutation watched;
  watched.kind =
      mutation.kind == Mutation::Kind::kPutStamped ? Mutation::Kind::kPut : mutation.kind;
  watched.key = mutation.key;
  if (mutation.kind == Mutation::Kind::kDelete) return watched;
  if (mutation.kind != Mutation::Kind::kDeleteRange && value.size() > kWatchValueBytesMax) {
    watched.value_omitted = true;
  } else {
    watched.value = value;
  }
  return watched;
}

std::bitset<kColumnFamilyCount> FamiliesOf(const CommitRecord& record) {
  std::bitset<kColumnFamilyCount> families;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (!record.verdicts[i].applied) continue;
    for (const Mutation& mutation : record.request->groups[i].mutations)
      families.set(static_cast<size_t>(mutation.cf));
  }
  return families;
}

}  // namespace

WatchHub::Watcher::Watcher(WatchRequest request, WatchObserver observer)
    : cf(request.cf),
      from_seq(request.from_seq),
      excluded_session(request.excluded_session),
      ranges{{std::move(request.begin), std::move(request.end)}},
      gate(std::move(observer)) {
  for (KeyRange& range : request.then) ranges.push_back(std::move(range));
}

void WatchHub::Deliver(Watcher& watcher, const CommitRecord& record) {
  if (watcher.from_seq != kWatchFromNow && record.seq <= watcher.from_seq) return;
  if (watcher.excluded_session != 0 && record.request->session == watcher.excluded_session) return;
  WatchBatch batch;
  size_t stamped = 0;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (!record.verdicts[i].applied) continue;
    for (const Mutation& mutation : record.request->groups[i].mutations) {
      const std::string* value = &mutation.value;
      if (mutation.kind == Mutation::Kind::kPutStamped) value = &record.stamped[stamped++];
      if (Touches(watcher, mutation)) batch.mutations.push_back(Watched(mutation, *value));
    }
  }
  if (batch.mutations.empty()) return;
  batch.seq = record.seq;
  batch.store_time = record.store_time;
  watcher.gate.Batch(std::move(batch));
}

void WatchHub::Add(std::shared_ptr<Watcher> watcher) {
  if (const absl::Status status = Validate(*watcher); !status.ok()) {
    watcher->gate.Lagged(status);
    return;
  }
  const CommitSeq from = watcher->from_seq;
  if (from < seq_) {
    const CommitSeq oldest = seq_ - history_.size();  // sequence before the oldest kept commit
    if (from < oldest) {
      watcher->gate.Lagged(
          absl::OutOfRangeError("the watch begins further back than commits are kept"));
      return;
    }
    for (size_t i = from - oldest; i < history_.size(); ++i) Deliver(*watcher, *history_[i]);
  }
  watchers_[static_cast<size_t>(watcher->cf)].push_back(std::move(watcher));
}

void WatchHub::MoveEnd(Watcher& watcher, size_t range, std::string end) {
  if (range < watcher.ranges.size()) watcher.ranges[range].end = std::move(end);
}

void WatchHub::Publish(std::shared_ptr<const CommitRecord> record) {
  seq_ = record->seq;
  const auto families = FamiliesOf(*record);
  for (size_t cf = 0; cf < kColumnFamilyCount; ++cf) {
    if (!families.test(cf)) continue;
    for (const auto& watcher : watchers_[cf]) {
      if (!watcher->gate.closed()) Deliver(*watcher, *record);
    }
  }
  history_bytes_ += record->bytes;
  history_.push_back(std::move(record));
  while (history_bytes_ > history_bytes_max_ && !history_.empty()) {
    history_bytes_ -= history_.front()->bytes;
    history_.pop_front();
  }
  if (++published_ % kSweepEvery == 0) RemoveClosed();
}

void WatchHub::RemoveClosed() {
  for (auto& watchers : watchers_) {
    std::erase_if(watchers, [](const auto& watcher) { return watcher->gate.closed(); });
  }
}

void WatchHub::LagAll(const absl::Status& why) {
  for (auto& watchers : watchers_) {
    for (const auto& watcher : watchers) watcher->gate.Lagged(why);
    watchers.clear();
  }
}

}  // namespace escapement::kv
