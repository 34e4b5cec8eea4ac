#include "common/sim/sim_perturbations.h"

#include <algorithm>

namespace escapement::sim {
namespace {

constexpr uint32_t kOnPerMillion = 250'000;
constexpr std::array<uint32_t, 3> kChances = {10'000, 100'000, 500'000};

}  // namespace

SimPerturbations::SimPerturbations(SimWorld& world)
    : world_(world), random_(world.seed(), "perturbations") {
  for (size_t i = 0; i < kSiteCount; ++i) {
    SimRandom lot(world.seed(), kSites[i].name);
    if (!lot.Chance(kOnPerMillion)) continue;
    chances_[i] = std::min(kChances[lot.Below(kChances.size())], kSites[i].percent_max * 10'000);
  }
}

void SimPerturbations::Calm() {
  for (size_t i = 0; i < kSiteCount; ++i) {
    if (kSites[i].when == SiteTraits::When::kWhileFaults) chances_[i] = 0;
  }
}

bool SimPerturbations::Hits(Site site) {
  const size_t i = Index(site);
  ++passages_[i];
  if (chances_[i] == 0 || !random_.Chance(chances_[i])) return false;
  ++hits_[i];
  world_.Note(kSites[i].name);
  return true;
}

}  // namespace escapement::sim
