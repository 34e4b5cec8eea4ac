#include "common/runtime/system_runtime.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace escapement {
namespace system_runtime_test {

// Lets the test wait for the executor.
class Signal {
 public:
  void Give() { promise_.set_value(); }
  void Wait() { promise_.get_future().wait(); }

 private:
  std::promise<void> promise_;
};

// Waits until every closure posted before has run.
void Flush(Executor& executor) {
  Signal signal;
  executor.Post([&] { signal.Give(); });
  signal.Wait();
}

TEST(SystemRuntime, RunsClosuresOfOneThreadInOrderOnOneThread) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  std::vector<int> ran;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 10'000; ++i) {
    executor->Post([&, i] {
      ran.push_back(i);
      threads.insert(std::this_thread::get_id());
    });
  }
  Flush(*executor);
  EXPECT_EQ(ran.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.count(std::this_thread::get_id()));
}

TEST(SystemRuntime, RunsEveryClosureOfManyPostingThreads) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  int ran = 0;  // only on the executor
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5'000; ++i) {
        executor->Post([&] { ++ran; });
        executor->PostAfter(absl::Microseconds(i % 100), [&] { ++ran; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Signal signal;
  executor->PostAfter(absl::Milliseconds(1), [&] { signal.Give(); });
  signal.Wait();
  EXPECT_EQ(ran, 40'000);
}

TEST(SystemRuntime, NeverRunsATimerEarlyAndKeepsTheOrderOfInstants) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  struct Timer {
    absl::Duration due_from;  // between these two
    absl::Duration due_to;
  };
  std::vector<Timer> timers(200);
  std::vector<absl::Duration> lateness;
  std::vector<size_t> order;
  Signal signal;
  for (size_t i = timers.size(); i-- > 0;) {
    const absl::Duration delay = absl::Microseconds(500) * (i + 1);
    timers[i].due_from = runtime.clock().Elapsed() + delay;
    executor->PostAfter(delay, [&, i] {
      lateness.push_back(runtime.clock().Elapsed() - timers[i].due_from);
      order.push_back(i);
      if (order.size() == timers.size()) signal.Give();
    });
    timers[i].due_to = runtime.clock().Elapsed() + delay;
  }
  signal.Wait();
  absl::Duration before;
  for (size_t i : order) {
    EXPECT_GE(timers[i].due_to, before);
    before = std::max(before, timers[i].due_from);
  }
  std::sort(lateness.begin(), lateness.end());
  EXPECT_GE(lateness.front(), absl::ZeroDuration());
  RecordProperty("lateness_p99", absl::FormatDuration(lateness[197]));
  std::printf("timer lateness p50 %s p99 %s max %s\n", absl::FormatDuration(lateness[100]).c_str(),
              absl::FormatDuration(lateness[197]).c_str(),
              absl::FormatDuration(lateness.back()).c_str());
}

TEST(SystemRuntime, AnEarlierTimerWakesASleepingThread) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  std::atomic<bool> late_ran{false};
  executor->PostAfter(absl::Hours(1), [&] { late_ran = true; });
  Flush(*executor);
  Signal signal;
  executor->PostAfter(absl::Milliseconds(1), [&] { signal.Give(); });
  signal.Wait();
  EXPECT_FALSE(late_ran);
}

TEST(SystemRuntime, CancelOnTheExecutorIsExact) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  bool ran = false;
  bool cancelled = false;
  bool cancelled_again = true;
  Signal signal;
  executor->Post([&] {
    const auto victim = executor->PostAfter(absl::ZeroDuration(), [&] { ran = true; });
    // Both are due at once, so they are in one batch with the victim.
    executor->PostAfter(absl::ZeroDuration(), [&] { signal.Give(); });
    cancelled = executor->Cancel(victim);
    cancelled_again = executor->Cancel(victim);
  });
  signal.Wait();
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(cancelled_again);
  EXPECT_FALSE(ran);
}

TEST(SystemRuntime, CancelReachesATimerThatIsDueInTheSameBatch) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  bool ran = false;
  bool cancelled = false;
  Executor::TimerId victim = 0;
  Signal signal;
  executor->Post([&] {
    executor->PostAfter(absl::ZeroDuration(), [&] { cancelled = executor->Cancel(victim); });
    victim = executor->PostAfter(absl::ZeroDuration(), [&] { ran = true; });
    executor->PostAfter(absl::ZeroDuration(), [&] { signal.Give(); });
  });
  signal.Wait();
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(ran);
}

TEST(SystemRuntime, StopDropsWaitingClosuresAndAwaitsTheRunningOne) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  Signal started;
  Signal go_on;
  std::atomic<bool> ended{false};
  bool dropped_ran = false;
  auto held = std::make_shared<int>(0);
  executor->Post([&] {
    started.Give();
    go_on.Wait();
    ended = true;
  });
  executor->Post([&, held] { dropped_ran = true; });
  executor->PostAfter(absl::Hours(1), [&, held] { dropped_ran = true; });
  started.Wait();
  std::thread releaser([&] {
    // A dropped closure shows that the stop has begun.
    while (true) {
      auto token = std::make_shared<int>(0);
      executor->Post([token] {});
      if (token.use_count() == 1) break;
    }
    go_on.Give();
  });
  executor->Stop();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(dropped_ran);
  EXPECT_EQ(held.use_count(), 1);
  executor->Stop();
  executor->Post([&, held] { dropped_ran = true; });
  EXPECT_FALSE(executor->Cancel(
      executor->PostAfter(absl::ZeroDuration(), [&, held] { dropped_ran = true; })));
  EXPECT_EQ(held.use_count(), 1);
  releaser.join();
  EXPECT_FALSE(dropped_ran);
}

TEST(SystemRuntime, AnExecutorMayStopItself) {
  SystemRuntime runtime;
  auto executor = runtime.NewExecutor("test");
  bool ran_after = false;
  Signal signal;
  executor->Post([&] {
    executor->Post([&] { ran_after = true; });
    executor->Stop();
    signal.Give();
  });
  signal.Wait();
  executor->Stop();
  EXPECT_FALSE(ran_after);
}

TEST(SystemRuntime, LastReferenceMayBeInAClosureOfTheExecutor) {
  SystemRuntime runtime;
  Signal released;
  Signal signal;
  auto executor = runtime.NewExecutor("test");
  executor->Post([last = executor, &released, &signal]() mutable {
    released.Wait();
    last.reset();
    signal.Give();
  });
  executor.reset();
  released.Give();
  signal.Wait();
}

TEST(SystemRuntime, RandomDiffersBetweenThreadsAndCalls) {
  SystemRuntime runtime;
  std::set<uint64_t> drawn;
  for (int i = 0; i < 1'000; ++i) drawn.insert(runtime.random().Next());
  std::thread other([&] {
    for (int i = 0; i < 1'000; ++i) drawn.insert(runtime.random().Next());
  });
  other.join();
  EXPECT_EQ(drawn.size(), 2'000u);
  EXPECT_EQ(runtime.random().Below(0), 0u);
  EXPECT_LT(runtime.random().Below(7), 7u);
}

TEST(SystemRuntime, ElapsedNeverGoesBack) {
  SystemRuntime runtime;
  absl::Duration last = runtime.clock().Elapsed();
  for (int i = 0; i < 10'000; ++i) {
    const absl::Duration now = runtime.clock().Elapsed();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace system_runtime_test
}  // namespace escapement
