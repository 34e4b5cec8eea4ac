// Decides which late occurrences fire.
//
// Pure.

#ifndef COMMON_CRON_MISFIRE_H_
#define COMMON_CRON_MISFIRE_H_

#include <cstddef>

#include "absl/time/time.h"
#include "common/cron/timetable.h"

namespace escapement::cron {

enum class MisfireAction { kFireAll, kFireLatest, kSkip };

struct MisfirePolicy {
  MisfireAction action = MisfireAction::kFireAll;
  absl::Duration threshold = absl::Seconds(60);
  size_t max_catch_up = 100;  // at least 1

  friend bool operator==(const MisfirePolicy&, const MisfirePolicy&) = default;
};

// The plan for the occurrences from `begin` on, as seen at `now`:
//
//   before summary_to             skipped, all in one summary
//   in [summary_to, fire_from)    skipped, each with its own record
//   at or after fire_from         they fire
//
// begin <= summary_to <= fire_from. An occurrence is missed if instant + threshold < now.
// Occurrences that are not missed fire.
struct MisfirePlan {
  absl::Time summary_to = absl::InfinitePast();
  absl::Time fire_from = absl::InfinitePast();

  bool Fires(absl::Time instant) const { return instant >= fire_from; }
  bool InSummary(absl::Time instant) const { return instant < summary_to; }

  friend bool operator==(const MisfirePlan&, const MisfirePlan&) = default;
};

// Occurrences before `begin` are already done.
MisfirePlan PlanMissed(const Timetable& timetable, const MisfirePolicy& policy, absl::Time begin,
                       absl::Time now);

}  // namespace escapement::cron

#endif  // COMMON_CRON_MISFIRE_H_
