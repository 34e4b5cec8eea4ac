// --lease_ttl and --lease_renew_every, for every service that owns something by lease.

#ifndef COMMON_SERVICE_LEASE_FLAGS_H_
#define COMMON_SERVICE_LEASE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace escapement {

// Appends a sentence for each that cannot be.
void ValidateLeaseFlags(std::vector<std::string>& errors);

absl::Duration LeaseTtl();         // how long a dead owner's leases stay its own
absl::Duration LeaseRenewEvery();  // at most a third of it

}  // namespace escapement

#endif  // COMMON_SERVICE_LEASE_FLAGS_H_
