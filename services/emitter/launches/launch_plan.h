// Decides about the due launch records of one schedule (docs/time.md, "Overlap between runs").
//
// Pure.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/records/row_judge.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::emitter {

// The verdict of the schedule's state and definition on an occurrence, without regard to runs.
struct DueLaunch {
  enum class Wish : uint8_t {
    kLaunch,
    kWait,  // the schedule is paused, or may want it again
    kSkip,  // for `reason`
    kDrop,  // another record stands for it, or it has been launched
  };
  Wish wish = Wish::kLaunch;
  std::string reason = {};
  absl::Time nominal_time;
};

// The row by which an occurrence is judged as if it had been launched already.
storage::v1::EventRecord RowToJudge(const LaunchKey& key, const storage::v1::LaunchRecord& record);
// `judged`, of this row, is not kFetch. An occurrence whose run would be cancelled at once is
// skipped; what is superseded waits until SupersededEndsAt.
DueLaunch Judged(const RowJudgement& judged, const storage::v1::EventRecord& row, absl::Time now);

struct OverlapState {
  storage::v1::RunOverlapKind policy = storage::v1::RUN_OVERLAP_KIND_ALLOW;  // as of now
  bool run_active = false;
  // Launches may come in another order than nominal times: of the version that launches, or of
  // records that a former one has left.
  bool out_of_order = false;
};

struct LaunchDecision {
  enum class Kind : uint8_t {
    kLaunch,          // whether or not a run is active
    kLaunchAlone,     // no run is active
    kCancelPrevious,  // launched; runs with an earlier nominal time are cancelled
    kWait,
    kSkip,         // for `reason`
    kSkipOverlap,  // a run is active
    kSkipBehind,   // a run is active, and one of these records waits for its end (`behind`)
    kDrop,
  };
  Kind kind = Kind::kWait;
  std::string reason = {};
  size_t behind = 0;  // its index

  friend bool operator==(const LaunchDecision&, const LaunchDecision&) = default;
};

// One decision for each of `due`, which are in order of launch. Each assumes that those before it
// have been carried out.
std::vector<LaunchDecision> PlanLaunches(const std::vector<DueLaunch>& due,
                                         const OverlapState& state);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_
