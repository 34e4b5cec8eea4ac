#include "tests/e2e/chaos/base/chaos_plan.h"

#include <map>

#include "gtest/gtest.h"

namespace escapement::chaos {
namespace chaos_plan_test {

PlanOptions Options(uint64_t seed) {
  PlanOptions options;
  options.seed = seed;
  options.processes = {"store", "master", "emitter", "handler", "token_manager"};
  options.links = {"master>store", "handler>store"};
  return options;
}

TEST(ChaosPlanTest, ItHasAsManyFaultsAsWereAskedForWhateverTheSeed) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::map<Fault::Kind, int> counts;
    for (const Fault& fault : PlanChaos(Options(seed))) ++counts[fault.kind];
    EXPECT_EQ(counts[Fault::Kind::kKill], 25);
    EXPECT_EQ(counts[Fault::Kind::kPause], 6);
    EXPECT_EQ(counts[Fault::Kind::kTerminate], 3);
    EXPECT_EQ(counts[Fault::Kind::kCut], 12);
  }
}

TEST(ChaosPlanTest, FaultsOfOneVictimDoNotOverlapAndComeInOrder) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::map<std::string, absl::Duration> ends;
    absl::Duration last;
    for (const Fault& fault : PlanChaos(Options(seed))) {
      EXPECT_GE(fault.begin, last);
      last = fault.begin;
      EXPECT_GE(fault.begin, ends[fault.victim]) << Describe(fault);
      EXPECT_GE(fault.end, fault.begin);
      ends[fault.victim] = fault.end;
    }
  }
}

TEST(ChaosPlanTest, EveryVictimAndEveryCutHasItsTurn) {
  std::map<std::string, int> victims;
  std::map<Cut, int> cuts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Fault& fault : PlanChaos(Options(seed))) {
      ++victims[fault.victim];
      ++cuts[fault.cut];
    }
  }
  EXPECT_EQ(victims.size(), 7u);
  EXPECT_EQ(cuts.size(), 6u);
}

TEST(ChaosPlanTest, OneSeedIsOnePlan) {
  const auto a = PlanChaos(Options(7));
  const auto b = PlanChaos(Options(7));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(Describe(a[i]), Describe(b[i]));
    EXPECT_EQ(a[i].begin, b[i].begin);
  }
}

}  // namespace chaos_plan_test
}  // namespace escapement::chaos
