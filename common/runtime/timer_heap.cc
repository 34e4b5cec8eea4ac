#include "common/runtime/timer_heap.h"

#include <algorithm>
#include <utility>

namespace escapement {

Executor::TimerId TimerHeap::Add(int64_t due_nanos, Closure closure) {
  const Executor::TimerId timer = ++last_timer_;
  closures_.emplace(timer, std::move(closure));
  heap_.push_back({due_nanos, timer});
  std::push_heap(heap_.begin(), heap_.end(), Later);
  return timer;
}

Closure TimerHeap::Take(Executor::TimerId timer) {
  auto it = closures_.find(timer);
  if (it == closures_.end()) return nullptr;
  Closure closure = std::move(it->second);
  closures_.erase(it);
  if (heap_.size() > 64 && heap_.size() > 2 * closures_.size()) Compact();
  return closure;
}

std::optional<int64_t> TimerHeap::NextDue() {
  DropCancelledTop();
  if (heap_.empty()) return std::nullopt;
  return heap_.front().due_nanos;
}

Executor::TimerId TimerHeap::PopDue(int64_t now_nanos) {
  DropCancelledTop();
  if (heap_.empty() || heap_.front().due_nanos > now_nanos) return 0;
  const Executor::TimerId timer = heap_.front().timer;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  heap_.pop_back();
  return timer;
}

void TimerHeap::Clear(std::vector<Closure>& dropped) {
  for (auto& [timer, closure] : closures_) dropped.push_back(std::move(closure));
  closures_.clear();
  heap_.clear();
}

void TimerHeap::DropCancelledTop() {
  while (!heap_.empty() && !closures_.contains(heap_.front().timer)) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    heap_.pop_back();
  }
}

void TimerHeap::Compact() {
  heap_.erase(
      std::remove_if(heap_.begin(), heap_.end(),
                     [this](const Place& place) { return !closures_.contains(place.timer); }),
      heap_.end());
  std::make_heap(heap_.begin(), heap_.end(), Later);
}

}  // namespace escapement
