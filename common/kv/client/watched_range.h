// WatchedRange: reads the beginning of a range of keys, and then reports what is committed there.
// If it has missed something, it starts again.
//
// Threads: one, that of `executor`.

#ifndef COMMON_KV_CLIENT_WATCHED_RANGE_H_
#define COMMON_KV_CLIENT_WATCHED_RANGE_H_

#include <functional>
#include <memory>

#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class WatchedRange {
 public:
  struct Callbacks {
    // Each time the watch has opened: it reports what is committed after `read`.
    std::function<void(const ScanResult& read)> on_open;
    std::function<void(const WatchBatch& batch)> on_batch;
    // The watch has missed something. Null: it starts again.
    std::function<void()> on_lagged = nullptr;
  };

  WatchedRange(KvClient& client, std::shared_ptr<Executor> executor, bool excluding_own,
               Callbacks callbacks);

  // `range` says what is read; all of [begin, end) is watched. Also after the session was lost.
  void Start(ScanRequest range);

 private:
  void OpenWatch(CommitSeq from);
  void Again();

  KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const bool excluding_own_;
  const Callbacks callbacks_;
  ScanRequest range_;
  std::shared_ptr<int> alive_;  // its address changes with each start
  std::unique_ptr<Watch> watch_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_WATCHED_RANGE_H_
