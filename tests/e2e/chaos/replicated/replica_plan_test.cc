#include "tests/e2e/chaos/replicated/replica_plan.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace escapement::chaos {
namespace replica_plan_test {

TEST(ReplicaPlanTest, PlanHasAsManyFaultsAsWereAskedFor) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (int faults : {0, 1, 12, 30, 45})
      EXPECT_EQ(PlanReplicaChaos({.seed = seed, .faults = faults}).size(),
                static_cast<size_t>(faults));
  }
}

TEST(ReplicaPlanTest, FaultsOfOneGroupDoNotOverlap) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::map<std::string, absl::Duration> ends;
    absl::Duration last;
    for (const Fault& fault : PlanReplicaChaos({.seed = seed})) {
      EXPECT_GE(fault.begin, last);
      last = fault.begin;
      absl::Duration& end = ends[GroupOf(fault)];
      EXPECT_GT(fault.begin, end) << Describe(fault);
      EXPECT_GT(fault.end, fault.begin);
      end = fault.end;
    }
  }
}

TEST(ReplicaPlanTest, ThirtyFaultsHaveEveryKindCutAndZombie) {
  std::set<Fault::Kind> kinds;
  std::set<Cut> cuts;
  std::set<std::string> victims;
  int zombies = 0;
  for (const Fault& fault : PlanReplicaChaos({.seed = 3})) {
    kinds.insert(fault.kind);
    cuts.insert(fault.cut);
    victims.insert(fault.victim);
    zombies += fault.kind == Fault::Kind::kPause && fault.end - fault.begin == kZombiePause;
  }
  EXPECT_EQ(kinds.size(), 7u);
  EXPECT_EQ(cuts.size(), 7u);
  EXPECT_EQ(victims.size(), 8u);
  EXPECT_EQ(zombies, 2);
}

TEST(ReplicaPlanTest, OneSeedIsOnePlan) {
  const auto a = PlanReplicaChaos({.seed = 7});
  const auto b = PlanReplicaChaos({.seed = 7});
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(Describe(a[i]), Describe(b[i]));
    EXPECT_EQ(a[i].begin, b[i].begin);
  }
}

}  // namespace replica_plan_test
}  // namespace escapement::chaos
