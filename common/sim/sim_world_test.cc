#include "common/sim/sim_world.h"

#include <set>
#include <string>
#include <vector>

#include "common/sim/sim_process.h"
#include "common/sim/sim_runtime.h"
#include "gtest/gtest.h"

namespace escapement::sim {
namespace sim_world_test {

TEST(SimRuntime, AdvancesOnlyByHand) {
  SimRuntime runtime(1);
  auto executor = runtime.NewExecutor("a");
  std::vector<int> ran;
  executor->PostAfter(absl::Seconds(2), [&] { ran.push_back(3); });
  executor->PostAfter(absl::Seconds(1), [&] { ran.push_back(2); });
  executor->Post([&] { ran.push_back(1); });
  runtime.RunUntilIdle();
  EXPECT_EQ(ran, (std::vector<int>{1}));
  runtime.AdvanceBy(absl::Milliseconds(1500));
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  EXPECT_EQ(runtime.clock().Elapsed(), absl::Milliseconds(1500));
  runtime.AdvanceBy(absl::Milliseconds(500));
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST(SimRuntime, RunsATimerAtItsInstant) {
  SimRuntime runtime(1);
  auto executor = runtime.NewExecutor("a");
  absl::Duration seen;
  executor->PostAfter(absl::Milliseconds(7), [&] { seen = runtime.clock().Elapsed(); });
  runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(seen, absl::Milliseconds(7));
}

TEST(SimRuntime, CancelsAndStops) {
  SimRuntime runtime(1);
  auto executor = runtime.NewExecutor("a");
  bool ran = false;
  const auto timer = executor->PostAfter(absl::Seconds(1), [&] { ran = true; });
  EXPECT_TRUE(executor->Cancel(timer));
  EXPECT_FALSE(executor->Cancel(timer));
  auto held = std::make_shared<int>(0);
  executor->PostAfter(absl::Seconds(1), [&, held] { ran = true; });
  executor->Stop();
  EXPECT_EQ(held.use_count(), 1);
  executor->Post([&] { ran = true; });
  runtime.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(ran);
}

TEST(SimRuntime, RunUntilJumpsFromEventToEvent) {
  SimRuntime runtime(1);
  auto executor = runtime.NewExecutor("a");
  bool done = false;
  executor->PostAfter(absl::Hours(1), [&] { done = true; });
  EXPECT_FALSE(runtime.RunUntil([&] { return done; }, absl::Minutes(59)));
  EXPECT_TRUE(runtime.RunUntil([&] { return done; }, absl::Minutes(2)));
  EXPECT_EQ(runtime.clock().Elapsed(), absl::Hours(1));
}

std::string OrderOfTwoExecutors(uint64_t seed) {
  SimRuntime runtime(seed);
  auto a = runtime.NewExecutor("a");
  auto b = runtime.NewExecutor("b");
  std::string order;
  for (int i = 0; i < 5; ++i) {
    a->Post([&, i] { order += static_cast<char>('0' + i); });
    b->Post([&, i] { order += static_cast<char>('5' + i); });
  }
  runtime.RunUntilIdle();
  return order;
}

TEST(SimWorld, KeepsTheOrderOfAnExecutorAndLetsTheSeedDecideBetweenThem) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string order = OrderOfTwoExecutors(seed);
    EXPECT_LT(order.find('0'), order.find('4'));
    EXPECT_LT(order.find('5'), order.find('9'));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 1u);
}

TEST(SimProcess, DropsEverythingWhenItIsKilled) {
  SimWorld world(1);
  auto process = std::make_unique<SimProcess>(world, "p");
  auto executor = process->NewExecutor("a");
  bool ran = false;
  auto held = std::make_shared<int>(0);
  executor->Post([&, held] { ran = true; });
  process->Kill();
  EXPECT_EQ(held.use_count(), 1);
  executor->PostAfter(absl::Seconds(1), [&, held] { ran = true; });
  EXPECT_EQ(held.use_count(), 1);
  SimProcess next(world, "p", {.incarnation = 2});
  EXPECT_NE(next.random().Next(), process->random().Next());
  world.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(ran);
  executor->Stop();
}

TEST(SimProcess, RunsClosuresDueInAPauseAtItsEndInOrder) {
  SimWorld world(3);
  SimProcess paused(world, "paused");
  SimProcess other(world, "other");
  auto a = paused.NewExecutor("a");
  auto b = other.NewExecutor("b");
  std::string order;
  std::vector<absl::Duration> at;
  for (int i = 0; i < 4; ++i) {
    a->PostAfter(absl::Seconds(4 - i), [&, i] {
      order += static_cast<char>('0' + i);
      at.push_back(world.Elapsed());
    });
  }
  b->PostAfter(absl::Seconds(3), [&] { order += 'b'; });
  paused.Pause(absl::Milliseconds(3500));
  world.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(order, "b3210");
  EXPECT_EQ(at[0], absl::Milliseconds(3500));
  EXPECT_EQ(at[2], absl::Milliseconds(3500));
  EXPECT_EQ(at[3], absl::Seconds(4));
}

TEST(SimProcess, ATimerOfAFastOrSlowClockIsNeverEarly) {
  for (int32_t ppm : {-500, -3, 0, 7, 500}) {
    SimWorld world(1);
    SimProcess process(world, "p", {.elapsed_offset = absl::Hours(5), .elapsed_rate_ppm = ppm});
    auto executor = process.NewExecutor("a");
    world.AdvanceBy(absl::Milliseconds(12'345));
    const absl::Duration due = process.clock().Elapsed() + absl::Seconds(100);
    absl::Duration ran;
    executor->PostAfter(absl::Seconds(100), [&] { ran = process.clock().Elapsed(); });
    world.AdvanceBy(absl::Seconds(200));
    EXPECT_GE(ran, due) << ppm;
    EXPECT_LT(ran, due + absl::Microseconds(1)) << ppm;
  }
}

uint64_t TraceOf(uint64_t seed, int extra_events) {
  SimWorld world(seed, {.post_latency_max = absl::Microseconds(50)});
  SimProcess process(world, "p");
  auto executor = process.NewExecutor("a");
  for (int i = 0; i < 50 + extra_events; ++i) {
    executor->PostAfter(process.random().Between(absl::ZeroDuration(), absl::Seconds(1)),
                        [&] { executor->Post([&] { world.Note("note"); }); });
  }
  world.AdvanceBy(absl::Seconds(2));
  return world.trace_hash();
}

TEST(SimWorld, TraceHashDiffersBetweenDifferentRuns) {
  EXPECT_EQ(TraceOf(5, 0), TraceOf(5, 0));
  EXPECT_NE(TraceOf(5, 0), TraceOf(6, 0));
  EXPECT_NE(TraceOf(5, 0), TraceOf(5, 1));
}

}  // namespace sim_world_test
}  // namespace escapement::sim
