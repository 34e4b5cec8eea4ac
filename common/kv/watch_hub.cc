#include "common/kv/watch_hub.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace escapement::kv {
namespace {

// Closed watches are swept once in this many commits.
constexpr uint64_t kSweepEvery = 256;

bool Touches(const WatchRequest& watch, const Mutation& mutation) {
  if (mutation.cf != watch.cf) return false;
  const bool below_end = watch.end.empty() || mutation.key < watch.end;
  if (mutation.kind == Mutation::Kind::kDeleteRange)
    return below_end && mutation.value > watch.begin;
  return below_end && mutation.key >= watch.begin;
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

void WatchHub::Deliver(Watcher& watcher, const CommitRecord& record) {
  const WatchRequest& watch = watcher.request;
  if (watch.from_seq != kWatchFromNow && record.seq <= watch.from_seq) return;
  if (watch.excluded_session != 0 && record.request->session == watch.excluded_session) return;
  WatchBatch batch;
  size_t stamped = 0;
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (!record.verdicts[i].applied) continue;
    for (const Mutation& mutation : record.request->groups[i].mutations) {
      const std::string* value = &mutation.value;
      if (mutation.kind == Mutation::Kind::kPutStamped) value = &record.stamped[stamped++];
      if (Touches(watch, mutation)) batch.mutations.push_back(Watched(mutation, *value));
    }
  }
  if (batch.mutations.empty()) return;
  batch.seq = record.seq;
  batch.store_time = record.store_time;
  watcher.gate.Batch(std::move(batch));
}

void WatchHub::Add(std::shared_ptr<Watcher> watcher) {
  if (static_cast<size_t>(watcher->request.cf) >= kColumnFamilyCount) {
    watcher->gate.Lagged(absl::InvalidArgumentError("unknown column family"));
    return;
  }
  const CommitSeq from = watcher->request.from_seq;
  if (from < seq_) {
    const CommitSeq oldest = seq_ - history_.size();  // the state before the oldest commit kept
    if (from < oldest) {
      watcher->gate.Lagged(
          absl::OutOfRangeError("the watch begins further back than commits are kept"));
      return;
    }
    for (size_t i = from - oldest; i < history_.size(); ++i) Deliver(*watcher, *history_[i]);
  }
  watchers_[static_cast<size_t>(watcher->request.cf)].push_back(std::move(watcher));
}

void WatchHub::MoveEnd(const std::shared_ptr<Watcher>& watcher, std::string end) {
  watcher->request.end = std::move(end);
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
