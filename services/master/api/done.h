// Done: how the answer of an asynchronous call comes back.

#ifndef SERVICES_MASTER_API_DONE_H_
#define SERVICES_MASTER_API_DONE_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace escapement::master {

// Runs exactly once, on an executor of the service and never within the call; destroyed without
// being run only when the service is destroyed first.
template <typename Response>
using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_DONE_H_
