// TargetSweep: the rows of `target_states` that their handlers have not written for long, because
// they are dead; for a SweepLoop.

#ifndef SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_H_
#define SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_H_

#include <vector>

#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

std::vector<SweptRows> TargetSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_H_
