#include <vector>

#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"

namespace escapement {
namespace timer_heap_test {

TEST(TimerHeap, GivesTimersByInstantThenByOrderOfAdding) {
  TimerHeap heap;
  std::vector<int> ran;
  heap.Add(20, [&] { ran.push_back(3); });
  heap.Add(10, [&] { ran.push_back(1); });
  heap.Add(10, [&] { ran.push_back(2); });
  EXPECT_EQ(heap.NextDue(), 10);
  EXPECT_EQ(heap.PopDue(9), 0u);
  while (const auto timer = heap.PopDue(20)) heap.Take(timer)();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(heap.NextDue(), std::nullopt);
}

TEST(TimerHeap, RemovesATimerThatIsTakenBeforeItIsDue) {
  TimerHeap heap;
  const auto timer = heap.Add(10, [] {});
  EXPECT_TRUE(heap.Take(timer) != nullptr);
  EXPECT_TRUE(heap.Take(timer) == nullptr);
  EXPECT_EQ(heap.NextDue(), std::nullopt);
}

TEST(TimerHeap, CancelsATimerThatWasPoppedButNotTaken) {
  TimerHeap heap;
  const auto timer = heap.Add(10, [] {});
  EXPECT_EQ(heap.PopDue(10), timer);
  EXPECT_TRUE(heap.Take(timer) != nullptr);
  EXPECT_TRUE(heap.Take(timer) == nullptr);
}

TEST(TimerHeap, KeepsItsOrderWhenMostTimersAreCancelled) {
  TimerHeap heap;
  std::vector<Executor::TimerId> timers;
  for (int i = 0; i < 10'000; ++i) timers.push_back(heap.Add((i * 7919) % 10'007, [] {}));
  for (int i = 0; i < 10'000; ++i) {
    if (i % 100 != 0) heap.Take(timers[i]);
  }
  EXPECT_EQ(heap.size(), 100u);
  int64_t last = -1;
  int given = 0;
  while (const auto due = heap.NextDue()) {
    EXPECT_GE(*due, last);
    last = *due;
    heap.Take(heap.PopDue(*due));
    ++given;
  }
  EXPECT_EQ(given, 100);
}

}  // namespace timer_heap_test
}  // namespace escapement
