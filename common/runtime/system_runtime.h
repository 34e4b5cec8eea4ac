// SystemRuntime: the machine's clocks, random numbers and threads.
//
// Each executor is one thread with a queue and a timer heap. A post wakes the thread only if it
// sleeps, and the thread takes the whole queue at once. Timers follow CLOCK_BOOTTIME with a slack
// of 1 ns. The thread never sleeps longer than a second, so after a suspension of the machine a
// timer is at most that late.

#ifndef COMMON_RUNTIME_SYSTEM_RUNTIME_H_
#define COMMON_RUNTIME_SYSTEM_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/runtime/runtime.h"

namespace escapement {

class SystemRuntime : public Runtime {
 public:
  SystemRuntime();
  ~SystemRuntime() override;
  SystemRuntime(const SystemRuntime&) = delete;
  SystemRuntime& operator=(const SystemRuntime&) = delete;

  Clock& clock() override;
  // Each thread has its own generator, seeded with 256 bits from the kernel. Not for secrets.
  Random& random() override;
  // An executor that is destroyed without Stop() stops itself. If its own closure destroys it, its
  // thread ends after that closure returns.
  std::shared_ptr<Executor> NewExecutor(std::string name) override;

 private:
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Random> random_;
};

// TimerHeap: closures ordered by instant; those of equal instants keep the order of Add. Cancelling
// is O(1) amortized.
//
// Threads: none of its own; one at a time.

class TimerHeap {
 public:
  // `due_nanos`: nanoseconds of Clock::Elapsed().
  Executor::TimerId Add(int64_t due_nanos, Closure closure);

  // Removes the timer and returns its closure; an empty one if the timer does not exist.
  Closure Take(Executor::TimerId timer);

  // The earliest instant of the timers that PopDue has not returned.
  std::optional<int64_t> NextDue();

  // The next timer due by `now_nanos`, or 0. The closure stays until Take.
  Executor::TimerId PopDue(int64_t now_nanos);

  // Removes all timers and moves their closures to `dropped`.
  void Clear(std::vector<Closure>& dropped);

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
  // Entries of cancelled timers stay until they reach the top or outnumber the others.
  std::vector<Place> heap_;
  absl::flat_hash_map<Executor::TimerId, Closure> closures_;
};

}  // namespace escapement

#endif  // COMMON_RUNTIME_SYSTEM_RUNTIME_H_
