#include "common/sim/sim_network.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"
#include "common/sim/sim_world.h"
#include "gtest/gtest.h"

namespace escapement::sim {
namespace sim_network_test {

struct Two {
  explicit Two(uint64_t seed) : world(seed), a(world, "a"), b(world, "b"), network(world, "net") {}
  SimWorld world;
  SimProcess a;
  SimProcess b;
  SimNetwork network;
};

TEST(SimNetwork, DeliversWithinTheDelay) {
  Two two(1);
  absl::Duration arrived;
  two.network.Send(two.a.state(), "b", [&] { arrived = two.world.Elapsed(); });
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_GE(arrived, two.network.faults().delay_min);
  EXPECT_LE(arrived, two.network.faults().delay_max);
}

TEST(SimNetwork, LosesAndDoublesAtTheGivenRates) {
  Two two(1);
  two.network.set_faults({.loss = 300'000, .duplication = 200'000});
  int arrived = 0;
  for (int i = 0; i < 10'000; ++i) two.network.Send(two.a.state(), "b", [&] { ++arrived; });
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_NEAR(arrived, 10'000 * 0.7 * 1.2, 300);
}

TEST(SimNetwork, BlocksOneDirectionOnly) {
  Two two(1);
  two.network.Block("a", "b");
  int forth = 0;
  int back = 0;
  two.network.Send(two.a.state(), "b", [&] { ++forth; });
  two.network.Send(two.b.state(), "a", [&] { ++back; });
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(forth, 0);
  EXPECT_EQ(back, 1);
  two.network.Unblock("a", "b");
  two.network.Send(two.a.state(), "b", [&] { ++forth; });
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(forth, 1);
}

TEST(SimNetwork, AMessageDiesWithItsReceiverAndReachesTheNextIncarnation) {
  SimWorld world(1);
  SimNetwork network(world, "net");
  SimProcess a(world, "a");
  SimProcess b(world, "b");
  int arrived = 0;
  int refused = 0;
  auto send = [&] {
    network.Send(
        a.state(), "b", [&] { ++arrived; }, [&] { ++refused; });
  };
  send();
  b.Kill();
  world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(arrived, 0);
  EXPECT_EQ(refused, 1);
  SimProcess next(world, "b", {.incarnation = 2});
  next.Pause(absl::Seconds(5));
  send();
  world.AdvanceBy(absl::Seconds(4));
  EXPECT_EQ(arrived, 0);
  world.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(arrived, 1);
}

TEST(SimNetwork, AStreamKeepsItsOrderUntilItBreaks) {
  Two two(4);
  auto stream = two.network.OpenStream(two.a.state(), two.b.state());
  std::vector<int> got;
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(two.network.Send(*stream, [&, i] { got.push_back(i); }));
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(got.size(), 100u);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  two.network.Block("a", "b");
  EXPECT_FALSE(two.network.Send(*stream, [&] { got.push_back(0); }));
  two.network.UnblockAll();
  EXPECT_FALSE(two.network.Send(*stream, [&] { got.push_back(0); }));
  two.world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(got.size(), 100u);
}

struct Doubler {
  int calls = 0;
  void Double(int value, std::function<void(absl::StatusOr<int>)> done) {
    ++calls;
    done(2 * value);
  }
};

absl::StatusOr<int> CallOnce(Two& two, Doubler& doubler) {
  SimEndpoint<Doubler> endpoint{"b", &doubler};
  int answers = 0;
  absl::StatusOr<int> result = absl::UnknownError("no answer");
  SimCall<int, Doubler>(
      two.network, two.a.state(), endpoint, absl::Seconds(1),
      [](Doubler& service, auto answer) { service.Double(21, std::move(answer)); },
      [&](absl::StatusOr<int> got) {
        ++answers;
        result = std::move(got);
      });
  two.world.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(answers, 1);
  return result;
}

TEST(SimRpc, AnswersOnceAlsoWhenMessagesAreDoubled) {
  Two two(1);
  two.network.set_faults({.duplication = 1'000'000});
  Doubler doubler;
  EXPECT_EQ(*CallOnce(two, doubler), 42);
  EXPECT_EQ(doubler.calls, 2);
}

TEST(SimRpc, AnswersUnavailableIfRequestOrAnswerIsLost) {
  Two two(1);
  Doubler doubler;
  two.network.Block("a", "b");
  EXPECT_TRUE(absl::IsUnavailable(CallOnce(two, doubler).status()));
  EXPECT_EQ(doubler.calls, 0);
  two.network.UnblockAll();
  two.network.Block("b", "a");
  EXPECT_TRUE(absl::IsUnavailable(CallOnce(two, doubler).status()));
  EXPECT_EQ(doubler.calls, 1);
}

TEST(SimRpc, ADeadServerRefusesAtOnce) {
  Two two(1);
  Doubler doubler;
  two.b.Kill();
  EXPECT_EQ(CallOnce(two, doubler).status().message(), "connection refused");
}

}  // namespace sim_network_test
}  // namespace escapement::sim
