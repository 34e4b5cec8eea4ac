#include "common/kv/client/client_watch.h"

#include <utility>

#include "common/runtime/perturb.h"

namespace escapement::kv {
namespace {

size_t BytesOf(const WatchBatch& batch) {
  size_t bytes = 128;
  for (const WatchedMutation& mutation : batch.mutations)
    bytes += mutation.key.size() + mutation.value.size() + 96;
  return bytes;
}

}  // namespace

void ClientWatch::Open(KvStore& store, uint64_t session) {
  absl::MutexLock lock(&mu_);
  if (opened_ || closed()) return;
  opened_ = true;
  if (excluding_own_) request_.excluded_session = session;
  auto self = shared_from_this();
  WatchObserver observer;
  observer.on_batch = [self](WatchBatch batch) { self->OnBatch(std::move(batch)); };
  observer.on_lagged = [self](absl::Status why) { self->Lag(std::move(why)); };
  inner_ = store.OpenWatch(request_, std::move(observer));
}

void ClientWatch::MoveEnd(size_t range, std::string end) {
  absl::MutexLock lock(&mu_);
  if (range > request_.then.size()) return;
  (range == 0 ? request_.end : request_.then[range - 1].end) = end;
  if (inner_ != nullptr) inner_->MoveEnd(range, std::move(end));
}

void ClientWatch::OnBatch(WatchBatch batch) {
  const size_t bytes = BytesOf(batch);
  absl::MutexLock lock(&posted_mu_);
  if (lagged_) return;
  if (posted_bytes_ + bytes > kPostedBytesMax || Perturb(runtime_, Site::kKvWatchLagged)) {
    lagged_ = true;
    on_->Post([self = shared_from_this()] {
      self->gate_.Lagged(absl::ResourceExhaustedError("the watcher does not keep up"));
    });
    return;
  }
  posted_bytes_ += bytes;
  // Post under the lock, so that batches are posted in commit order.
  on_->Post([self = shared_from_this(), bytes, batch = std::move(batch)]() mutable {
    {
      absl::MutexLock lock(&self->posted_mu_);
      self->posted_bytes_ -= bytes;
    }
    self->gate_.Batch(std::move(batch));
  });
}

void ClientWatch::Lag(absl::Status why) {
  absl::MutexLock lock(&posted_mu_);
  if (lagged_) return;
  lagged_ = true;
  on_->Post([self = shared_from_this(), why = std::move(why)] { self->gate_.Lagged(why); });
}

void ClientWatch::Close() {
  gate_.Close();
  Detach();
}

void ClientWatch::Detach() {
  // Destroy the watch after releasing the lock, because its end may wait for a running call.
  std::unique_ptr<Watch> ended;
  {
    absl::MutexLock lock(&mu_);
    opened_ = true;
    ended = std::move(inner_);
  }
}

}  // namespace escapement::kv
