#include "tests/simulation/record/store_times.h"

#include <algorithm>
#include <iterator>

namespace escapement::simulation {

size_t StoreTimes::FirstAfter(absl::Time t) const {
  return std::upper_bound(commits_.begin(), commits_.end(), t,
                          [](absl::Time at, const Commit& commit) { return at < commit.time; }) -
         commits_.begin();
}

absl::Time StoreTimes::Low(absl::Time t) const {
  const size_t after = FirstAfter(t);
  return after == 0 ? t : commits_[after - 1].store_time;
}

// The next durable commit may have been decided before `t`. A commit that is decided later has a
// later stamp.
absl::Time StoreTimes::High(absl::Time t) const {
  const size_t next = FirstAfter(t);
  for (size_t i = next; i < commits_.size(); ++i) {
    if (commits_[i].store_time > commits_[next].store_time) return commits_[i].store_time;
  }
  return commits_.empty()
             ? t
             : commits_.back().store_time + (t - commits_.back().time) + absl::Seconds(10);
}

absl::Time StoreTimes::NotBefore(absl::Time store_time) const {
  const auto after =
      std::lower_bound(commits_.begin(), commits_.end(), store_time,
                       [](const Commit& commit, absl::Time at) { return commit.store_time < at; });
  return after == commits_.begin() ? store_time : std::prev(after)->time;
}

absl::Time StoreTimes::ShownBy(absl::Time store_time) const {
  if (commits_.empty()) return store_time;
  const auto after =
      std::lower_bound(commits_.begin(), commits_.end(), store_time,
                       [](const Commit& commit, absl::Time at) { return commit.store_time < at; });
  const Commit& nearest = after == commits_.begin() ? *after : *std::prev(after);
  const absl::Time told = nearest.time + (store_time - nearest.store_time);
  return after == commits_.end() ? told : std::min(told, after->time);
}

History InStoreTime(const History& history) {
  const StoreTimes times(history.commits);
  History told = history;
  told.end = times.Low(history.end);
  for (ScheduleLife& life : told.schedules) {
    for (ScheduleChange& change : life.changes) {
      change.called = times.Low(change.called);
      change.answered = times.High(change.answered);
    }
    for (TriggeredRun& run : life.triggered) run.called = times.Low(run.called);
    for (CancelledRun& run : life.cancels) run.called = times.Low(run.called);
  }
  for (Receipt& receipt : told.receipts) receipt.time = times.High(receipt.time);
  return told;
}

History InTrueTime(const History& history) {
  const StoreTimes times(history.commits);
  History told = history;
  for (Receipt& receipt : told.receipts) receipt.launch = times.NotBefore(receipt.launch);
  for (Commit& commit : told.commits) commit.store_time = commit.time;
  return told;
}

}  // namespace escapement::simulation
