// The options of an emitter: the values that a process or a test can set. The fixed bounds are in
// limits.h.

#ifndef SERVICES_EMITTER_BASE_OPTIONS_H_
#define SERVICES_EMITTER_BASE_OPTIONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/emitter/base/limits.h"

namespace escapement::emitter {

struct EmitterOptions {
  std::string instance = "emitter";              // unique for each start of a process
  std::vector<std::string> dead_instances = {};  // see LeaseKeeper::Options
  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);
  // Rows are written this long before they are due: the time for which emitters may be away
  // without lateness. A change of a schedule emits what falls into it.
  absl::Duration ahead = absl::Seconds(5);
  absl::Duration step_every = absl::Seconds(1);  // in store time; less than `ahead`
  // The revision of this process's time zone database, which must be in force for its commits to
  // apply (common/tzdata). Empty: no revision is required.
  std::string tz_rev = {};
  size_t launches_max = kLaunchesMax;  // launch records in memory
  Metrics* metrics = nullptr;          // null: not shown. Outlives the service
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_BASE_OPTIONS_H_
