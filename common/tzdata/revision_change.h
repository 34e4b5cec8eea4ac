// The commits by which a revision of the time zone database comes into force.
//
// Pure.

#ifndef COMMON_TZDATA_REVISION_CHANGE_H_
#define COMMON_TZDATA_REVISION_CHANGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/tzdata/zone_rules.h"

namespace escapement::tzdata {

// The first revision of a store: puts tz_rev and the rules of all zones, if tz_rev is absent.
kv::Group Adopt(absl::string_view revision, const std::vector<cron::Zone>& zones, absl::Time now);

struct SwitchPlan {
  kv::Group group;
  std::vector<std::string> moved;  // the zones whose former rules the switch keeps
};
// The switch from `old_revision` to `revision`. If tz_rev is the old one, puts tz_rev, tz_switch,
// and the rules of zones that differ from `kept` (the store's). A zone that this machine does not
// have stays as it is.
SwitchPlan PlanSwitch(absl::string_view old_revision, absl::string_view revision,
                      const RulesByName& kept, const std::vector<cron::Zone>& zones,
                      absl::Time now);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_REVISION_CHANGE_H_
