// WatchHub: delivers commits to watches, and keeps the latest commits for watches that begin a
// little in the past.
//
// Threads: one at a time, the thread of the store that publishes. Any thread may end a watch,
// through its gate. Before a store publishes a commit, it handles all calls of MoveEnd and
// OpenWatch made before.

#ifndef COMMON_KV_ENGINE_WATCH_HUB_H_
#define COMMON_KV_ENGINE_WATCH_HUB_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/engine/commit_engine.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

class WatchHub {
 public:
  struct Watcher {
    Watcher(WatchRequest request, WatchObserver observer);
    // Once added, a watcher is touched only by the publishing thread.
    const ColumnFamily cf;
    const CommitSeq from_seq;
    const uint64_t excluded_session;
    std::vector<KeyRange> ranges;  // the request's first range, then the others
    ObserverGate gate;
  };

  // `seq` is the sequence of the last commit. `history_bytes_max` bounds the kept commits.
  WatchHub(CommitSeq seq, size_t history_bytes_max)
      : seq_(seq), history_bytes_max_(history_bytes_max) {}

  // Delivers the past commits that the watcher asks for, or "lagged" if they are no longer kept.
  void Add(std::shared_ptr<Watcher> watcher);
  void MoveEnd(Watcher& watcher, size_t range, std::string end);

  // Takes commits in the order of their sequences.
  void Publish(std::shared_ptr<const CommitRecord> record);

  // Ends every watch with `why`.
  void LagAll(const absl::Status& why);

 private:
  static void Deliver(Watcher& watcher, const CommitRecord& record);
  void RemoveClosed();

  CommitSeq seq_;
  const size_t history_bytes_max_;
  size_t history_bytes_ = 0;
  std::deque<std::shared_ptr<const CommitRecord>> history_;  // dense in seq, ends at seq_
  std::array<std::vector<std::shared_ptr<Watcher>>, kColumnFamilyCount> watchers_;
  uint64_t published_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_WATCH_HUB_H_
