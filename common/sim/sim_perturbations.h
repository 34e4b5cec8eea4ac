// SimPerturbations: which perturbation points (common/runtime/perturb.h) a world's seed switches
// on, and when they hit.
//
// About a quarter of the sites is on in a world, the same for all of its processes, each with a
// chance per passage of its own: 1 %, 10 % or 50 %, or what the site allows at most if that is
// less. A site's lot depends on the seed and its name: a new site leaves those of the others as
// they were. Hits are folded into the world's trace.
//
// One object for all processes of a world, which outlives it.
//
// Threads: the world's.

#ifndef COMMON_SIM_SIM_PERTURBATIONS_H_
#define COMMON_SIM_SIM_PERTURBATIONS_H_

#include <array>
#include <cstdint>

#include "common/runtime/perturb.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

class SimPerturbations final : public Perturbations {
 public:
  explicit SimPerturbations(SimWorld& world);

  bool Hits(Site site) override;

  // The time without faults has come: sites that are kWhileFaults hit no more.
  void Calm();

  // Sets a site's chance, in millionths, whatever the seed says.
  void Set(Site site, uint32_t per_million) { chances_[Index(site)] = per_million; }
  uint32_t chance(Site site) const { return chances_[Index(site)]; }

  // By site, since the world began. A site that is off is passed, too.
  const std::array<uint64_t, kSiteCount>& hits() const { return hits_; }
  const std::array<uint64_t, kSiteCount>& passages() const { return passages_; }

 private:
  static size_t Index(Site site) { return static_cast<size_t>(site); }

  SimWorld& world_;
  SimRandom random_;
  std::array<uint32_t, kSiteCount> chances_ = {};  // millionths
  std::array<uint64_t, kSiteCount> hits_ = {};
  std::array<uint64_t, kSiteCount> passages_ = {};
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_PERTURBATIONS_H_
