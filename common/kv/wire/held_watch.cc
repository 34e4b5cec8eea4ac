#include "common/kv/wire/held_watch.h"

namespace escapement::kv {

class HeldWatch::Handle final : public Watch {
 public:
  explicit Handle(std::shared_ptr<HeldWatch> watch) : watch_(std::move(watch)) {}
  ~Handle() override { watch_->Close(); }
  void MoveEnd(size_t range, std::string end) override { watch_->MoveEnd(range, std::move(end)); }

 private:
  const std::shared_ptr<HeldWatch> watch_;
};

std::unique_ptr<Watch> HeldWatch::HandleOf(std::shared_ptr<HeldWatch> watch) {
  return std::make_unique<Handle>(std::move(watch));
}

void HeldWatch::Open(KvStore& store) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_) return;
  }
  // Without the lock: the store may call the observer at once, and the observer may end the watch.
  WatchObserver observer;
  observer.on_batch = [gate = gate_](WatchBatch batch) { gate->Batch(std::move(batch)); };
  observer.on_lagged = [gate = gate_](const absl::Status& why) { gate->Lagged(why); };
  std::unique_ptr<Watch> opened = store.OpenWatch(std::move(request_), std::move(observer));
  absl::MutexLock lock(&mu_);
  if (closed_) return;  // `opened` ends after the lock is released
  inner_ = std::move(opened);
  for (auto& [range, end] : moved_ends_) inner_->MoveEnd(range, std::move(end));
}

void HeldWatch::Close() {
  // Destroyed without the lock: its end may wait for a running call of the observer.
  std::unique_ptr<Watch> ended;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    ended = std::move(inner_);
  }
  gate_->Close();
}

void HeldWatch::MoveEnd(size_t range, std::string end) {
  absl::MutexLock lock(&mu_);
  if (inner_ != nullptr) return inner_->MoveEnd(range, std::move(end));
  moved_ends_[range] = std::move(end);
}

}  // namespace escapement::kv
