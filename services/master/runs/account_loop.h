// AccountLoop: watches, from outside the emitters and handlers, that occurrences fire. Every master
// does it, so a frozen emitter or handler is noticed although it says nothing itself. Each step
//  - reads how far the partitions are emitted (emission_behind_seconds);
//  - accounts for the last occurrences of the heartbeat schedule: one that is due and has not ended
//    means that nobody handles its shard (heartbeat_late_seconds);
//  - accounts for the last minutes of some schedules of any tenants, drawn at random; counts and
//    logs their unaccounted occurrences.
//
// A step ends its sampling once it has taken a hundredth of the time between two steps. So the loop
// takes about a hundredth of a core, or less.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_RUNS_ACCOUNT_LOOP_H_
#define SERVICES_MASTER_RUNS_ACCOUNT_LOOP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/occurrence_account.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

class AccountLoop {
 public:
  // `context` and `tenants` outlive it; the context's executor is stopped before the loop is
  // destroyed. `every`: from the end of one step to the begin of the next; zero: it does nothing.
  AccountLoop(MasterContext& context, const TenantDirectory& tenants, absl::Duration every)
      : context_(context), tenants_(tenants), every_(every) {}

  void Start() {
    if (every_ > absl::ZeroDuration()) Rest();
  }

 private:
  void Rest();
  void Step();
  void OnEmittedTo(const kv::GetResult& checkpoints);
  void Account(const ScheduleName& schedule,
               absl::AnyInvocable<void(absl::StatusOr<AccountPage>)> done);
  void Sample();
  void AccountSampled();

  MasterContext& context_;
  const TenantDirectory& tenants_;
  const absl::Duration every_;
  absl::Duration step_begin_;          // by the runtime's clock
  std::vector<ScheduleName> sampled_;  // not accounted for yet
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_ACCOUNT_LOOP_H_
