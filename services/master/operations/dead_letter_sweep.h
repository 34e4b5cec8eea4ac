// DeadLetterSweep: dead letters that are older than their retention, and operations that ended long
// ago; for a SweepLoop.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SWEEP_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SWEEP_H_

#include <vector>

#include "absl/time/time.h"
#include "services/master/base/metrics.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

// `metrics` outlives the loop.
std::vector<SweptRows> DeadLetterSweep(absl::Duration retention, MasterMetrics& metrics);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SWEEP_H_
