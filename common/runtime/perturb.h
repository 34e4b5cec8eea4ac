// Perturbation points: places where code that is right either way takes, in the simulation, the way
// that it seldom takes (a batch of one, a read that comes back empty-handed, an answer that is
// late), so that a seed's run visits states that load and luck would hardly ever bring about.
//
//   const size_t chunk = Perturb(runtime_, Site::kEmitterChunkOfOne) ? 1 : options_.chunk;
//
// A point must be one that the contract allows at any time: nothing that a checker would have to
// forgive. Outside of the simulation Runtime::perturbations() is null and a point costs one virtual
// call; there are none in loops over events.
//
// Threads: as the Runtime's.

#ifndef COMMON_RUNTIME_PERTURB_H_
#define COMMON_RUNTIME_PERTURB_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/runtime/runtime.h"

namespace escapement {

// Every point has one site; its name says what happens there. The number is how often it may happen
// at most, in percent of its passages: what the contract allows now and then can, done half of the
// time, keep work from ever getting on.
#define ESCAPEMENT_PERTURBATION_SITES(SITE) \
  SITE(kKvCommitAnswerLost, 50)             \
  SITE(kKvOneCommitOutstanding, 50)         \
  SITE(kKvReadAnswerLost, 50)               \
  SITE(kKvWatchLagged, 10)                  \
  SITE(kStoreBatchOfOne, 50)                \
  SITE(kStoreQueueFull, 10)                 \
  SITE(kStoreRecentWritesForgotten, 10)     \
  SITE(kStoreScanEndsEarly, 50)             \
  SITE(kStoreSyncSlow, 10)                  \
  SITE(kStoreWatchHistoryForgotten, 50)

enum class Site : uint16_t {
#define ESCAPEMENT_SITE(name, percent_max) name,
  ESCAPEMENT_PERTURBATION_SITES(ESCAPEMENT_SITE)
#undef ESCAPEMENT_SITE
};

struct SiteTraits {
  absl::string_view name;  // without the k
  uint32_t percent_max;
};

inline constexpr SiteTraits kSites[] = {
#define ESCAPEMENT_SITE(name, percent_max) {absl::string_view(#name).substr(1), percent_max},
    ESCAPEMENT_PERTURBATION_SITES(ESCAPEMENT_SITE)
#undef ESCAPEMENT_SITE
};
inline constexpr size_t kSiteCount = sizeof(kSites) / sizeof(kSites[0]);

inline constexpr absl::string_view NameOf(Site site) {
  return kSites[static_cast<size_t>(site)].name;
}

// Decides for every passage of a point.
class Perturbations {
 public:
  virtual ~Perturbations() = default;
  virtual bool Hits(Site site) = 0;
};

inline bool Perturb(Runtime& runtime, Site site) {
  Perturbations* perturbations = runtime.perturbations();
  return perturbations != nullptr && perturbations->Hits(site);
}

}  // namespace escapement

#endif  // COMMON_RUNTIME_PERTURB_H_
