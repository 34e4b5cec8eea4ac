// AccessSweep: audit entries that are older than their retention, and keys that were revoked or
// have expired as long ago, except those from a file (bootstrap_key_loop.h); for a SweepLoop.

#ifndef SERVICES_MASTER_AUDIT_ACCESS_SWEEP_H_
#define SERVICES_MASTER_AUDIT_ACCESS_SWEEP_H_

#include <vector>

#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

std::vector<SweptRows> AccessSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_ACCESS_SWEEP_H_
