// The plan for a window of time: how late occurrences (CatchUp) and changed rules of zones
// (RulesChange) are judged, and which children are read (ChildRanges).

#ifndef SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_
#define SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/launch_expression.h"
#include "common/cron/timetable.h"
#include "common/storage/children_table.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::storage::v1 {
class StateRecord;
}  // namespace escapement::storage::v1

namespace escapement::emitter {

// The fate of one timetable's occurrences in this catch-up.
struct LatePlan {
  cron::MisfirePlan misfire;
  // The occurrence under which all in the summary are counted: the first one, which no other
  // catch-up has had. Absent: there is no summary.
  std::optional<cron::Occurrence> summary;
  absl::Time summary_from;    // earlier occurrences are skipped one by one
  cron::Timetable timetable;  // names `summary`

  bool InSummary(absl::Time instant) const {
    return summary.has_value() && instant >= summary_from && misfire.InSummary(instant);
  }
};

// CatchUp: how a partition judges occurrences that it reaches late.
//
// A catch-up begins with the first window that begins before store time. It lasts until the windows
// have passed the instant at which it began. So one downtime is judged as a whole, as seen at that
// instant, even if it takes many windows. An owner that takes over in the middle begins another
// catch-up. Windows ahead of time have no catch-up, because nothing in them can be missed.
//
// Pure. Threads: one.
class CatchUp {
 public:
  // A window [begin, end) is next; `now` is store time. `resumed`: another owner has emitted part
  // of it.
  void OnWindow(absl::Time begin, absl::Time end, bool resumed, absl::Time now);

  absl::Time judged_at() const { return judged_at_; }

  // True if an occurrence at or after `begin` can be missed by this threshold.
  bool MayMiss(absl::Time begin, absl::Duration threshold) const {
    return begin + threshold < judged_at_;
  }

  // Null if the plan under `key` is not known.
  std::shared_ptr<const LatePlan> Find(const std::string& key) const;
  // Makes the plan under `key`. No occurrence before `from` has to be emitted.
  std::shared_ptr<const LatePlan> Make(std::string key, const cron::Timetable& timetable,
                                       const cron::MisfirePolicy& policy, absl::Time from);
  // Where the windows of this catch-up began. All `from` before that give the same plan.
  absl::Time begin() const { return begin_; }

 private:
  absl::Time judged_at_ = absl::InfinitePast();
  absl::Time begin_ = absl::InfinitePast();
  absl::Time summaries_from_ = absl::InfinitePast();
  absl::flat_hash_map<std::string, std::shared_ptr<const LatePlan>> plans_;  // never iterated
};

// RulesChange: how to judge the windows of a partition over which the rules of zones have changed
// (common/tzdata/rederive.h).
//
// Pure.
struct RulesChange {
  std::shared_ptr<const tzdata::MovedZones> moved;
  // The window was begun by the former rules and is finished by them; the rest does not apply.
  bool by_former = false;
  // How far the former rules have emitted the partition.
  tzdata::PartitionFrontier frontier = {};
  // True if nothing has been emitted by the present rules yet. The window then also has the
  // occurrences that these rules have moved to before its begin.
  bool first = false;

  // Children whose `from` is later were made under the present rules.
  absl::Time made_to() const { return std::max(frontier.planned_to, moved->time()); }
  // Later occurrences need not be judged.
  absl::Time judge_to() const { return moved->JudgeTo(std::max(frontier.emitted_to, made_to())); }
};

// The ranges of `children` that an emitter reads for a window of time.
//
// Pure.

// How far to plan at `now`: whole seconds, so that steps a second apart make windows of a second.
absl::Time PlannedTo(absl::Time now, absl::Duration ahead);

// The end of the next window that begins at `emitted_to`: at most kWindowMax later and not after
// `planned_to`.
absl::Time WindowEnd(absl::Time emitted_to, absl::Time planned_to);

// LaunchExpressions in use, by zone.
using InUse = std::map<std::string, std::set<cron::LaunchExpression>>;
// Adds what an in_use key says. False if the key is malformed.
bool AddInUse(absl::string_view in_use_key, InUse& in_use);

using kv::KeyRange;  // always in `children`

struct ChildRanges {
  std::vector<KeyRange> ranges;            // ascending, disjoint
  std::vector<std::string> unknown_zones;  // in use, but not in this machine's zone database
};
// Where the children of everything that can fire in [begin, end) are: those of intervals and lists
// with an instant before `end`, then those of cron expressions. `rules` null: none have changed.
ChildRanges RangesToRead(uint16_t partition, const InUse& in_use, absl::Time begin, absl::Time end,
                         const RulesChange* rules = nullptr);

// The part of the ranges that is after `last_key`.
std::vector<KeyRange> After(std::vector<KeyRange> ranges, absl::string_view last_key);

// True if children of this version fire: it is the current one, and the schedule is enabled.
bool Fires(uint64_t version, const storage::v1::StateRecord& state);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_
