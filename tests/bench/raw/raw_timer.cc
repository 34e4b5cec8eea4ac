#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <future>
#include <vector>

#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

// Gives the calling thread real-time priority, and binds it to this processor.
bool BecomeRealTime(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  sched_param param = {};
  param.sched_priority = sched_get_priority_min(SCHED_FIFO);
  return sched_setaffinity(0, sizeof only, &only) == 0 &&
         pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
}

}  // namespace

fixtures::LatencyHistogram RawTimer(uint64_t count, double per_second) {
  fixtures::LatencyHistogram lateness;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t begin = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  for (uint64_t i = 1; i <= count; ++i) {
    const int64_t due = begin + static_cast<int64_t>(static_cast<double>(i) * 1e9 / per_second);
    const timespec until = {static_cast<time_t>(due / 1'000'000'000),
                            static_cast<long>(due % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    clock_gettime(CLOCK_MONOTONIC, &now);
    lateness.Add((int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - due) / 1000);
  }
  return lateness;
}

fixtures::LatencyHistogram RawRealTimeTimer(uint64_t count, double per_second) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return {};
  std::vector<std::future<fixtures::LatencyHistogram>> timers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    timers.push_back(std::async(std::launch::async, [=] {
      return BecomeRealTime(cpu) ? RawTimer(count, per_second) : fixtures::LatencyHistogram();
    }));
  }
  fixtures::LatencyHistogram all;
  for (auto& timer : timers) all.Merge(timer.get());
  return all;
}

}  // namespace escapement::bench
