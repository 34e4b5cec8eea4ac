// TimerHeap: closures by instant; equal instants keep the order of Add. Cancelling is O(1)
// amortized.
//
// Threads: none of its own; one at a time.

#ifndef COMMON_RUNTIME_TIMER_HEAP_H_
#define COMMON_RUNTIME_TIMER_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/runtime/runtime.h"

namespace escapement {

class TimerHeap {
 public:
  // Nanoseconds of Clock::Elapsed().
  Executor::TimerId Add(int64_t due_nanos, Closure closure);

  // The timer's closure, which is then forgotten; an empty one if there is none (any more).
  Closure Take(Executor::TimerId timer);

  // When the next timer is due that PopDue has not given out.
  std::optional<int64_t> NextDue();

  // The next timer that is due by `now_nanos`, or 0. Its closure stays until it is taken.
  Executor::TimerId PopDue(int64_t now_nanos);

  // Forgets all; the closures are moved to `dropped`.
  void Clear(std::vector<Closure>* dropped);

  size_t size() const { return closures_.size(); }

 private:
  struct Place {
    int64_t due_nanos;
    Executor::TimerId timer;
  };
  static bool Later(const Place& a, const Place& b) {
    return a.due_nanos != b.due_nanos ? a.due_nanos > b.due_nanos : a.timer > b.timer;
  }
  void DropCancelledTop();
  void Compact();

  Executor::TimerId last_timer_ = 0;
  // Places of cancelled timers stay until they surface or outnumber the others.
  std::vector<Place> heap_;
  absl::flat_hash_map<Executor::TimerId, Closure> closures_;
};

}  // namespace escapement

#endif  // COMMON_RUNTIME_TIMER_HEAP_H_
