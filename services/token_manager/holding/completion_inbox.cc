#include "services/token_manager/holding/completion_inbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace escapement::token_manager {

bool CompletionInbox::Add(Call call) {
  absl::MutexLock lock(&mutex_);  // `call` is destroyed after it
  if (closed_) return false;
  const bool tell = !told_ && !busy_.contains(call.policy_shard);
  calls_.push_back(std::move(call));
  told_ |= tell;
  return tell;
}

std::vector<CompletionInbox::Call> CompletionInbox::Take() {
  absl::MutexLock lock(&mutex_);
  told_ = false;
  if (busy_.empty()) return std::exchange(calls_, {});
  const auto kept = std::stable_partition(
      calls_.begin(), calls_.end(),
      [&busy = busy_](const Call& call) { return !busy.contains(call.policy_shard); });
  std::vector<Call> taken(std::make_move_iterator(calls_.begin()), std::make_move_iterator(kept));
  calls_.erase(calls_.begin(), kept);
  return taken;
}

void CompletionInbox::SetBusy(std::set<uint16_t> policy_shards) {
  absl::MutexLock lock(&mutex_);
  busy_.swap(policy_shards);
}

void CompletionInbox::Close() {
  std::vector<Call> dropped;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  dropped = std::exchange(calls_, {});
}

}  // namespace escapement::token_manager
