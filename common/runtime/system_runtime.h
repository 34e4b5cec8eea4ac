// SystemRuntime: the machine's clocks, chance and threads.
//
// Each executor is one thread with a queue and a timer heap. Whoever posts wakes the thread only if
// it sleeps; the thread takes the whole queue at once. Timers follow CLOCK_BOOTTIME with a slack of
// 1 ns; a sleep never lasts longer than a second, so that a timer is at most that late after the
// machine was suspended.

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
  // A generator for each thread, seeded with 256 bits from the kernel. Not for secrets.
  Random& random() override;
  // An executor that is destroyed without Stop() stops itself; destroyed by its own closure it ends
  // its thread once that closure has returned.
  std::shared_ptr<Executor> NewExecutor(std::string name) override;

 private:
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Random> random_;
};

}  // namespace escapement

#endif  // COMMON_RUNTIME_SYSTEM_RUNTIME_H_
