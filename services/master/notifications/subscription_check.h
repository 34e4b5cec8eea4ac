// CheckSubscription: looks once at all schedules of a subscription, and commits what it found
// together with the message about it.
//
// It accounts for the occurrences since the last check, and once more for those runs that had not
// ended then (occurrence_account.h). So it sees what did not happen, whoever should have done it.
// Failures also come from the dead letters, which have triggered runs and one-off events, too.
//
// Everything is one commit, on condition that the record of the last check is as it was read. So if
// several masters check at the same time, one of them reports.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CHECK_H_
#define SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CHECK_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/explain/explain_service.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

// The services that checks use. They outlive the checks.
struct SubscriptionWorld {
  MasterContext& context;
  const TenantDirectory& tenants;
  RunApi& runs;
  ExplainService& explanations;
};

// `row`: of SubscriptionRecord. Does nothing if the last check was less than kNotifyEvery ago, by
// any master. An error: the check was given up, and the next one begins where this one began.
//
// Keep the result until `done` has run. Without it the check ends, and `done` is destroyed.
std::shared_ptr<void> CheckSubscription(const SubscriptionWorld& world, kv::Entry row,
                                        absl::AnyInvocable<void(absl::Status)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_NOTIFICATIONS_SUBSCRIPTION_CHECK_H_
