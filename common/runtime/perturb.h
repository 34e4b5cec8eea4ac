// Perturbation points. At such a point the simulation may take a correct but rare path: a batch of
// one, an empty read, a late answer. So the run of a seed visits states that load and luck would
// hardly ever reach.
//
//   const size_t chunk = Perturb(runtime_, Site::kEmitterChunkOfOne) ? 1 : options_.chunk;
//
// The contract must allow the rare path at any time: a checker must not have to forgive it. Outside
// the simulation Runtime::perturbations() is null and a point costs one virtual call. There are
// none in loops over events.
//
// Threads: as the Runtime's.

#ifndef COMMON_RUNTIME_PERTURB_H_
#define COMMON_RUNTIME_PERTURB_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/runtime/runtime.h"

namespace escapement {

// Every point has one site, whose name says what happens there. The number is the highest share of
// passages in which it happens, in percent. Some paths are allowed now and then, but would stop all
// progress if taken half of the time. kWhileFaults: the path costs about as much time as a fault,
// so it is not taken in the last part of a simulation, which has no faults.
#define ESCAPEMENT_PERTURBATION_SITES(SITE)         \
  /* common/kv: the client */                       \
  SITE(kKvOneCommitOutstanding, 50, kAlways)        \
  SITE(kKvReadAnswerLost, 10, kAlways)              \
  SITE(kKvWatchLagged, 10, kAlways)                 \
  /* common/kv: the store in memory */              \
  SITE(kStoreBatchOfOne, 50, kAlways)               \
  SITE(kStoreCommitAnswerLost, 10, kAlways)         \
  SITE(kStoreQueueFull, 10, kAlways)                \
  SITE(kStoreRecentWritesForgotten, 10, kAlways)    \
  SITE(kStoreSyncSlow, 10, kAlways)                 \
  SITE(kStoreWatchHistoryForgotten, 50, kAlways)    \
  /* common/lease */                                \
  SITE(kLeaseAcquiredAlone, 50, kWhileFaults)       \
  SITE(kLeaseGivenUp, 5, kWhileFaults)              \
  SITE(kLeaseRenewedLate, 50, kWhileFaults)         \
  /* common/records */                              \
  SITE(kCacheChangeNotTold, 50, kAlways)            \
  SITE(kCacheDefinitionsForgotten, 10, kAlways)     \
  SITE(kCacheFetchOfOne, 50, kAlways)               \
  SITE(kCacheStatesForgotten, 10, kAlways)          \
  /* common/tokens */                               \
  SITE(kDoorBusy, 10, kAlways)                      \
  SITE(kDoorReadsOneGrant, 50, kAlways)             \
  SITE(kDoorStoresReports, 50, kAlways)             \
  /* services/master */                             \
  SITE(kMasterBackfillOfOne, 50, kAlways)           \
  SITE(kMasterCancelReadsAgain, 50, kAlways)        \
  SITE(kMasterChangeLate, 10, kAlways)              \
  SITE(kMasterChangeReadsAgain, 10, kAlways)        \
  SITE(kMasterDeliveriesForgotten, 50, kAlways)     \
  SITE(kMasterPolicyReadsAgain, 10, kAlways)        \
  SITE(kMasterScanOfOne, 50, kAlways)               \
  /* services/emitter: emission */                  \
  SITE(kEmitterChunkOfOne, 50, kAlways)             \
  SITE(kEmitterInUseScanOfOne, 50, kAlways)         \
  SITE(kEmitterInUseSwept, 50, kAlways)             \
  SITE(kEmitterPartitionReread, 10, kAlways)        \
  SITE(kEmitterPlansLittleAhead, 50, kAlways)       \
  SITE(kEmitterScanOfOne, 50, kAlways)              \
  SITE(kEmitterWindowShort, 50, kAlways)            \
  /* services/emitter: launches and ends of runs */ \
  SITE(kLauncherAssumesNoRun, 50, kAlways)          \
  SITE(kLauncherDecidesOne, 50, kAlways)            \
  SITE(kLauncherMemorySmall, 50, kAlways)           \
  SITE(kLauncherRecordNotTold, 50, kAlways)         \
  SITE(kLauncherScanOfOne, 50, kAlways)             \
  SITE(kCloserClosesOne, 50, kAlways)               \
  SITE(kCloserLate, 50, kAlways)                    \
  SITE(kCloserMarkScanOfOne, 50, kAlways)           \
  SITE(kCloserPartScanOfOne, 50, kAlways)           \
  SITE(kCloserReadsOne, 50, kAlways)                \
  /* services/handler: what comes in */             \
  SITE(kLoaderDropsLatest, 10, kAlways)             \
  SITE(kLoaderFallsBehind, 10, kAlways)             \
  SITE(kLoaderHorizonShort, 50, kAlways)            \
  SITE(kLoaderRewinds, 10, kAlways)                 \
  SITE(kLoaderRowNotTold, 50, kAlways)              \
  SITE(kLoaderScanOfOne, 50, kAlways)               \
  SITE(kGrantedClaimNotTold, 50, kAlways)           \
  SITE(kInflightScanOfOne, 50, kAlways)             \
  SITE(kTakeoverLate, 50, kAlways)                  \
  /* services/handler: what goes out */             \
  SITE(kHandlerClaimOfOneEvent, 50, kAlways)        \
  SITE(kHandlerClaimOfOneRow, 50, kAlways)          \
  SITE(kHandlerOneClaimOutstanding, 50, kAlways)    \
  SITE(kHandlerSendsHeld, 50, kAlways)              \
  SITE(kHandlerEndOfOne, 50, kAlways)               \
  SITE(kHandlerEndsHeld, 50, kAlways)               \
  SITE(kHandlerRowEndOfOne, 50, kAlways)            \
  SITE(kHandlerRunPartsForgotten, 50, kAlways)      \
  /* services/token_manager */                      \
  SITE(kPolicyChangeNotTold, 50, kAlways)           \
  SITE(kTokensCallsOfOne, 50, kAlways)              \
  SITE(kTokensClaimOfOneGrant, 50, kAlways)         \
  SITE(kTokensCompletionRefused, 50, kAlways)       \
  SITE(kTokensExpiryOfOne, 50, kAlways)             \
  SITE(kTokensGrantOfOne, 50, kAlways)              \
  SITE(kTokensGroupsSmall, 50, kAlways)             \
  SITE(kTokensNewsNotedAtOnce, 50, kAlways)         \
  SITE(kTokensPoliciesReread, 10, kAlways)          \
  SITE(kTokensReportQueueSmall, 50, kAlways)        \
  SITE(kTokensReportsOfOne, 50, kAlways)            \
  SITE(kTokensShardReloaded, 2, kWhileFaults)       \
  SITE(kTokensVisitOfOne, 50, kAlways)              \
  SITE(kWaitingRowNotTold, 50, kAlways)             \
  SITE(kWaitingScanOfOne, 50, kAlways)

enum class Site : uint16_t {
#define ESCAPEMENT_SITE(name, percent_max, when) name,
  ESCAPEMENT_PERTURBATION_SITES(ESCAPEMENT_SITE)
#undef ESCAPEMENT_SITE
};

struct SiteTraits {
  enum class When : uint8_t { kAlways, kWhileFaults };
  absl::string_view name;  // without the k
  uint32_t percent_max;
  When when;
};

inline constexpr SiteTraits kSites[] = {
#define ESCAPEMENT_SITE(name, percent_max, when) \
  {absl::string_view(#name).substr(1), percent_max, SiteTraits::When::when},
    ESCAPEMENT_PERTURBATION_SITES(ESCAPEMENT_SITE)
#undef ESCAPEMENT_SITE
};
inline constexpr size_t kSiteCount = sizeof(kSites) / sizeof(kSites[0]);

inline constexpr absl::string_view NameOf(Site site) {
  return kSites[static_cast<size_t>(site)].name;
}

// Decides at each passage of a point.
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
