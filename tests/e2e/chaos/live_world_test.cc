#include "tests/e2e/chaos/live_world.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace escapement::chaos {
namespace live_world_test {

TEST(LiveWorldTest, PostedClosureSeesAWorldThatHasReachedItsMoment) {
  LiveWorld live(1);
  live.Start();
  for (int i = 0; i < 100; ++i) {
    const absl::Time before = TrueTime();
    absl::Time seen;
    live.Call([&] { seen = live.world().Now(); });
    EXPECT_GE(seen, before);
    EXPECT_LE(seen, TrueTime());
  }
}

TEST(LiveWorldTest, EventsOfTheWorldHappenAtTheirTrueTime) {
  LiveWorld live(1);
  absl::Notification happened;
  absl::Time at, seen;
  at = live.world().Now() + absl::Milliseconds(50);
  live.world().After(absl::Milliseconds(50), "event", [&] {
    seen = TrueTime();
    happened.Notify();
  });
  live.Start();
  happened.WaitForNotification();
  EXPECT_GE(seen, at);
}

TEST(LiveWorldTest, PostedClosuresKeepTheirOrderAndAreDroppedAfterTheStop) {
  LiveWorld live(1);
  live.Start();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) live.Post([&order, i] { order.push_back(i); });
  live.Call([] {});
  live.Stop();
  live.Post([&order] { order.push_back(-1); });
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace live_world_test
}  // namespace escapement::chaos
