// Counts the rows of a tenant.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_TENANTS_ROW_COUNTER_H_
#define SERVICES_MASTER_TENANTS_ROW_COUNTER_H_

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

enum class CountedRows { kSchedules, kPolicies, kPendingEvents };

// Counting stops at `count_max`, and for pending events after kCountRowsMax rows of all tenants.
void CountRows(MasterContext& context, CountedRows which, const std::string& tenant,
               int64_t count_max, absl::AnyInvocable<void(absl::StatusOr<int64_t>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_ROW_COUNTER_H_
