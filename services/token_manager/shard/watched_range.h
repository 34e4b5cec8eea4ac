// WatchedRange: reads the beginning of a range of keys, and then reports what is committed there.
// If it has missed something, it starts again.
//
// Threads: one, that of `executor`.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_WATCHED_RANGE_H_
#define SERVICES_TOKEN_MANAGER_SHARD_WATCHED_RANGE_H_

#include <functional>
#include <memory>

#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"

namespace escapement::token_manager {

class WatchedRange {
 public:
  struct Callbacks {
    // Each time the watch has opened: it reports what is committed after `read`.
    std::function<void(const kv::ScanResult& read)> on_open;
    std::function<void(const kv::WatchBatch& batch)> on_batch;
    // The watch has missed something. Null: it starts again.
    std::function<void()> on_lagged = nullptr;
  };

  WatchedRange(kv::KvClient& client, std::shared_ptr<Executor> executor, bool excluding_own,
               Callbacks callbacks);

  // `range` says what is read; all of [begin, end) is watched. Also after the session was lost.
  void Start(kv::ScanRequest range);

 private:
  void OpenWatch(kv::CommitSeq from);
  void Again();

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const bool excluding_own_;
  const Callbacks callbacks_;
  kv::ScanRequest range_;
  std::shared_ptr<int> alive_;  // its address changes with each start
  std::unique_ptr<kv::Watch> watch_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_WATCHED_RANGE_H_
