// WatchHub: tells watches what has been committed, and keeps the latest commits for watches that
// begin a little back.
//
// Threads: one at a time, that of the store which publishes; ends of watches come from any thread
// through the gate. A store takes the calls of MoveEnd and OpenWatch that were made before it
// publishes a commit into account for it.

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
    // Touched by the publishing thread only, once added.
    const ColumnFamily cf;
    const CommitSeq from_seq;
    const uint64_t excluded_session;
    std::vector<KeyRange> ranges;  // the request's own, and then the others
    ObserverGate gate;
  };

  // `seq` is the last commit's; `history_bytes_max` bounds the commits that are kept.
  WatchHub(CommitSeq seq, size_t history_bytes_max)
      : seq_(seq), history_bytes_max_(history_bytes_max) {}

  // Gives the watcher what it asks for of the past, or "lagged" if that is no longer there.
  void Add(std::shared_ptr<Watcher> watcher);
  void MoveEnd(Watcher& watcher, size_t range, std::string end);

  // Records in the order of their sequences.
  void Publish(std::shared_ptr<const CommitRecord> record);

  // Every watch ends with `why`.
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
