// SystemRuntime: the machine's clocks, random numbers and threads.
//
// Each executor is one thread with a queue and a timer heap. A post wakes the thread only if it
// sleeps, and the thread takes the whole queue at once. Timers follow CLOCK_BOOTTIME with a slack
// of 1 ns. The thread never sleeps longer than a second, so after a suspension of the machine a
// timer is at most that late.

#ifndef COMMON_RUNTIME_SYSTEM_RUNTIME_H_
#define COMMON_RUNTIME_SYSTEM_RUNTIME_H_

#include <memory>
#include <string>

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

}  // namespace escapement

#endif  // COMMON_RUNTIME_SYSTEM_RUNTIME_H_
