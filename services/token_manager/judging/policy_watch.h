// PolicyWatch: tells of every change of a policy's record.
//
// Threads: one, that of `executor`.

#ifndef SERVICES_TOKEN_MANAGER_JUDGING_POLICY_WATCH_H_
#define SERVICES_TOKEN_MANAGER_JUDGING_POLICY_WATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"

namespace escapement::token_manager {

class PolicyWatch {
 public:
  struct Callbacks {
    // nullopt: it was deleted.
    std::function<void(const Uid& policy, const std::optional<std::string>& record,
                       kv::CommitSeq seq)>
        on_policy;
    // It has changed, and must be read.
    std::function<void(const Uid& policy)> on_large;
    // Called when the watch opens: at the start, and each time it has missed something. Later reads
    // are followed by the watch's changes; earlier reads may be old.
    std::function<void()> on_open;
  };

  PolicyWatch(kv::KvClient& client, std::shared_ptr<Executor> executor, Callbacks callbacks);
  ~PolicyWatch();

  void Start();

 private:
  void OpenWatch(kv::CommitSeq from);
  void OnBatch(const kv::WatchBatch& batch);

  kv::KvClient& client_;
  std::shared_ptr<Executor> executor_;
  Callbacks callbacks_;
  std::shared_ptr<int> alive_;  // its address changes with each start
  std::unique_ptr<kv::Watch> watch_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_JUDGING_POLICY_WATCH_H_
