#include "common/process/lease_flags.h"

#include "absl/flags/flag.h"

ABSL_FLAG(absl::Duration, lease_ttl, absl::Seconds(5),
          "how long a lease lasts without renewal: the leases of a dead process are free after it");
ABSL_FLAG(absl::Duration, lease_renew_every, absl::Seconds(1),
          "how often leases are renewed; at most a third of --lease_ttl");

namespace escapement {

void ValidateLeaseFlags(std::vector<std::string>& errors) {
  // With a shorter ttl, most of the lease would be the margin between the holder's and the store's
  // view of its end.
  if (LeaseTtl() < absl::Milliseconds(500)) errors.push_back("--lease_ttl: must be at least 500ms");
  if (LeaseRenewEvery() <= absl::ZeroDuration() || LeaseRenewEvery() * 3 > LeaseTtl()) {
    errors.push_back("--lease_renew_every: must be positive and at most a third of --lease_ttl");
  }
}

absl::Duration LeaseTtl() { return absl::GetFlag(FLAGS_lease_ttl); }
absl::Duration LeaseRenewEvery() { return absl::GetFlag(FLAGS_lease_renew_every); }

}  // namespace escapement
