// The ranges of `children` that an emitter reads for a window of time.
//
// Pure.

#ifndef SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_
#define SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/launch_expression.h"
#include "common/storage/children_table.h"
#include "services/emitter/emission/catch_up.h"

namespace escapement::storage::v1 {
class StateRecord;
}  // namespace escapement::storage::v1

namespace escapement::emitter {

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

// Whether children of this version fire: the schedule is enabled, and it is the current one.
bool Fires(uint64_t version, const storage::v1::StateRecord& state);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_EMISSION_PLAN_H_
