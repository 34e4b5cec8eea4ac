// SimPerturbations: decides by a world's seed which perturbation points (common/runtime/perturb.h)
// are on, and when they hit.
//
// About a quarter of the sites is on in a world, the same ones for all its processes. Each such
// site has its own chance per passage: 1 %, 10 % or 50 %, or the site's maximum if that is less.
// The choice depends on the seed and the site's name, so a new site does not change the others.
// Hits are folded into the world's trace.
//
// All processes of a world share one object, which must outlive them.
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

  // The part of the run without faults begins: sites that are kWhileFaults no longer hit.
  void Calm();

  // Sets a site's chance, in millionths, in place of the seed's choice.
  void Set(Site site, uint32_t per_million) { chances_[Index(site)] = per_million; }
  uint32_t chance(Site site) const { return chances_[Index(site)]; }

  // Hits and passages by site since the world began. A site that is off is still passed.
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
