// MasterApis: all that one master promises.

#ifndef SERVICES_MASTER_API_MASTER_APIS_H_
#define SERVICES_MASTER_API_MASTER_APIS_H_

#include "services/master/api/audit_api.h"
#include "services/master/api/dead_letter_api.h"
#include "services/master/api/event_api.h"
#include "services/master/api/key_api.h"
#include "services/master/api/operation_api.h"
#include "services/master/api/policy_api.h"
#include "services/master/api/run_api.h"
#include "services/master/api/schedule_api.h"
#include "services/master/api/target_api.h"
#include "services/master/api/tenant_api.h"

namespace escapement::master {

struct MasterApis {
  ScheduleApi& schedules;
  EventApi& events;
  RunApi& runs;
  PolicyApi& policies;
  TenantApi& tenants;
  KeyApi& keys;
  AuditApi& audit;
  TargetApi& targets;
  DeadLetterApi& dead_letters;
  OperationApi& operations;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_MASTER_APIS_H_
