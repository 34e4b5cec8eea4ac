// CompletionInbox: completions that have come for a token manager and that it has not taken yet.
//
// While a commit of a policy shard is under way, nothing can be done with what comes for it: the
// end of the commit has the manager look here. So those who bring it wake nobody, and of those who
// bring something for other shards only the first since the manager has last taken does. At ten
// thousand completions a second most of them would otherwise have a thread woken for nothing.
//
// Threads: Add from any; the others on the manager's executor. Done closures are not called here,
// and are destroyed without the lock.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_COMPLETION_INBOX_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_COMPLETION_INBOX_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/tokens/token_door.h"

namespace escapement::token_manager {

class CompletionInbox {
 public:
  struct Call {
    uint16_t policy_shard = 0;
    std::vector<storage::v1::GrantReportRecord::Entry> entries;
    LocalGrants::Done done;
  };

  // True: Take is to be called soon, which nobody else has been told.
  [[nodiscard]] bool Add(Call call) ABSL_LOCKS_EXCLUDED(mutex_);

  // All calls but those of busy shards, in the order of their coming.
  std::vector<Call> Take() ABSL_LOCKS_EXCLUDED(mutex_);

  // The policy shards of which a commit is under way. When one is not among them any more, Take is
  // to be called.
  void SetBusy(std::set<uint16_t> policy_shards) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops what is here and what comes.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::set<uint16_t> busy_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // Add has returned true since the last Take
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_COMPLETION_INBOX_H_
