#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/sim/sim_process.h"
#include "gtest/gtest.h"

namespace escapement::sim {
namespace sim_perturbations_test {

Site SiteAt(size_t i) { return static_cast<Site>(i); }

std::vector<uint32_t> ChancesOf(uint64_t seed) {
  SimWorld world(seed);
  SimPerturbations perturbations(world);
  std::vector<uint32_t> chances;
  for (size_t i = 0; i < kSiteCount; ++i) chances.push_back(perturbations.chance(SiteAt(i)));
  return chances;
}

TEST(SimPerturbations, NamesDiffer) {
  std::set<absl::string_view> names;
  for (const SiteTraits& site : kSites) {
    EXPECT_TRUE(names.insert(site.name).second) << site.name;
    EXPECT_GT(site.percent_max, 0) << site.name;
    EXPECT_LE(site.percent_max, 50) << site.name;
  }
}

TEST(SimPerturbations, SeedTurnsOnAQuarterOfSitesAndSomeSeedEachSite) {
  constexpr uint64_t kSeeds = 400;
  std::vector<uint64_t> on(kSiteCount);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto chances = ChancesOf(seed);
    for (size_t i = 0; i < kSiteCount; ++i) {
      on[i] += chances[i] > 0;
      EXPECT_LE(chances[i], kSites[i].percent_max * 10'000);
    }
  }
  for (size_t i = 0; i < kSiteCount; ++i) {
    EXPECT_GT(on[i], kSeeds * 15 / 100) << kSites[i].name;
    EXPECT_LT(on[i], kSeeds * 35 / 100) << kSites[i].name;
  }
}

TEST(SimPerturbations, HitsAtItsChanceAndCounts) {
  SimWorld world(1);
  SimPerturbations perturbations(world);
  const Site site = SiteAt(0);
  perturbations.Set(site, 100'000);
  perturbations.Set(SiteAt(1), 0);
  uint64_t hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    hits += perturbations.Hits(site);
    EXPECT_FALSE(perturbations.Hits(SiteAt(1)));
  }
  EXPECT_GT(hits, 800);
  EXPECT_LT(hits, 1'200);
  EXPECT_EQ(perturbations.hits()[0], hits);
  EXPECT_EQ(perturbations.passages()[0], 10'000);
  EXPECT_EQ(perturbations.hits()[1], 0);
  EXPECT_EQ(perturbations.passages()[1], 10'000);
}

TEST(SimPerturbations, OnlySitesThatAreAlwaysAllowedHitWhenCalm) {
  SimWorld world(1);
  SimPerturbations perturbations(world);
  for (size_t i = 0; i < kSiteCount; ++i) perturbations.Set(SiteAt(i), 1'000'000);
  perturbations.Calm();
  for (size_t i = 0; i < kSiteCount; ++i)
    EXPECT_EQ(perturbations.Hits(SiteAt(i)), kSites[i].when == SiteTraits::When::kAlways);
}

uint64_t TraceOf(uint64_t seed, uint32_t per_million) {
  SimWorld world(seed);
  SimPerturbations perturbations(world);
  perturbations.Set(SiteAt(0), per_million);
  for (int i = 0; i < 100; ++i) perturbations.Hits(SiteAt(0));
  return world.trace_hash();
}

TEST(SimPerturbations, IsTheSameForTheSameSeedAndPartOfTheTrace) {
  EXPECT_EQ(ChancesOf(7), ChancesOf(7));
  EXPECT_NE(ChancesOf(7), ChancesOf(8));
  EXPECT_EQ(TraceOf(7, 100'000), TraceOf(7, 100'000));
  EXPECT_NE(TraceOf(7, 100'000), TraceOf(7, 0));
  EXPECT_NE(TraceOf(7, 100'000), TraceOf(8, 100'000));
}

TEST(SimPerturbations, ProcessUsesThePerturbationsOfItsWorld) {
  SimWorld world(1);
  SimPerturbations perturbations(world);
  perturbations.Set(SiteAt(0), 1'000'000);
  SimProcess without(world, "a");
  EXPECT_FALSE(Perturb(without, SiteAt(0)));
  SimProcess::Options options;
  options.perturbations = &perturbations;
  SimProcess with(world, "b", options);
  EXPECT_TRUE(Perturb(with, SiteAt(0)));
  EXPECT_EQ(perturbations.passages()[0], 1);
}

}  // namespace sim_perturbations_test
}  // namespace escapement::sim
