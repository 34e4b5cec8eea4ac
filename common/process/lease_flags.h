// --lease_ttl and --lease_renew_every, for every service that owns leases.

#ifndef COMMON_PROCESS_LEASE_FLAGS_H_
#define COMMON_PROCESS_LEASE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace escapement {

// Appends a sentence for each impossible value.
void ValidateLeaseFlags(std::vector<std::string>& errors);

absl::Duration LeaseTtl();         // a dead owner keeps its leases this long
absl::Duration LeaseRenewEvery();  // at most a third of LeaseTtl()

}  // namespace escapement

#endif  // COMMON_PROCESS_LEASE_FLAGS_H_
