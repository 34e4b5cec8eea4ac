#include "services/master/service/master_grpc.h"

#include <memory>
#include <utility>

#include "common/rpc/rpc_table_grpc.h"
#include "services/master/audit/audit_service.h"
#include "services/master/calendars/calendar_service.h"
#include "services/master/cells/cell_service.h"
#include "services/master/events/event_grpc.h"
#include "services/master/explain/explain_service.h"
#include "services/master/keys/key_service.h"
#include "services/master/notifications/subscription_service.h"
#include "services/master/operations/dead_letter_service.h"
#include "services/master/operations/event_cancel_service.h"
#include "services/master/operations/operation_service.h"
#include "services/master/service/cell_masters.h"
#include "services/master/service/master_service.h"
#include "services/master/statistics/statistics_service.h"
#include "services/master/target_states/target_service.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace {

// Adds methods of an API that each cell has: a call goes to the cell of its tenant.
template <typename Api>
class OfTenant {
 public:
  OfTenant(CellMasters& masters, Api& (MasterService::*api)(), RpcTable& table)
      : masters_(masters), api_(api), table_(table) {}

  template <typename Request, typename Response>
  const OfTenant& Add(void (Api::*method)(Request, Done<Response>)) const {
    table_.AddUnary<Request, Response>(
        [&masters = masters_, api = api_, method](Request request, UnaryAnswer<Response> answer) {
          const absl::StatusOr<MasterService*> master = masters.Of(TenantOf(answer.resource()));
          if (!master.ok()) return answer(master.status());
          std::shared_ptr<const Caller> caller = answer.caller();
          (((*master)->*api)().*method)(std::move(request),
                                        Done<Response>(std::move(answer), std::move(caller)));
        });
    return *this;
  }

 private:
  CellMasters& masters_;
  Api& (MasterService::*const api_)();
  RpcTable& table_;
};

void AddScheduleRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<ScheduleApi>(masters, &MasterService::schedules, table)
      .Add(&ScheduleApi::CreateSchedule)
      .Add(&ScheduleApi::GetSchedule)
      .Add(&ScheduleApi::ListSchedules)
      .Add(&ScheduleApi::UpdateSchedule)
      .Add(&ScheduleApi::DeleteSchedule)
      .Add(&ScheduleApi::BatchCreateSchedules)
      .Add(&ScheduleApi::BatchUpdateSchedules)
      .Add(&ScheduleApi::BatchDeleteSchedules)
      .Add(&ScheduleApi::PauseSchedule)
      .Add(&ScheduleApi::ResumeSchedule)
      .Add(&ScheduleApi::TriggerSchedule)
      .Add(&ScheduleApi::BackfillSchedule)
      .Add(&ScheduleApi::ListScheduleVersions)
      .Add(&ScheduleApi::PreviewSchedule)
      .Add(&ScheduleApi::ForecastLoad);
}

void AddRunRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<RunApi>(masters, &MasterService::runs, table)
      .Add(&RunApi::ListRuns)
      .Add(&RunApi::GetRun)
      .Add(&RunApi::ListRunEvents)
      .Add(&RunApi::CancelRun)
      .Add(&RunApi::ListOccurrences);
}

void AddPolicyRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<PolicyApi>(masters, &MasterService::policies, table)
      .Add(&PolicyApi::CreatePolicy)
      .Add(&PolicyApi::GetPolicy)
      .Add(&PolicyApi::ListPolicies)
      .Add(&PolicyApi::UpdatePolicy)
      .Add(&PolicyApi::DeletePolicy)
      .Add(&PolicyApi::PausePolicy)
      .Add(&PolicyApi::ResumePolicy)
      .Add(&PolicyApi::OverridePolicy)
      .Add(&PolicyApi::ClearOverride)
      .Add(&PolicyApi::ListPolicyKeys)
      .Add(&PolicyApi::GetPolicyUsage);
}

void AddCalendarRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<CalendarService>(masters, &MasterService::calendars, table)
      .Add(&CalendarService::CreateCalendar)
      .Add(&CalendarService::GetCalendar)
      .Add(&CalendarService::ListCalendars)
      .Add(&CalendarService::UpdateCalendar)
      .Add(&CalendarService::DeleteCalendar);
}

void AddSubscriptionRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<SubscriptionService>(masters, &MasterService::subscriptions, table)
      .Add(&SubscriptionService::CreateSubscription)
      .Add(&SubscriptionService::GetSubscription)
      .Add(&SubscriptionService::ListSubscriptions)
      .Add(&SubscriptionService::UpdateSubscription)
      .Add(&SubscriptionService::DeleteSubscription)
      .Add(&SubscriptionService::TestSubscription);
}

void AddTenantRpcs(TenantService& tenants, RpcTable& table) {
  table.AddUnary(tenants, &TenantService::CreateTenant);
  table.AddUnary(tenants, &TenantService::GetTenant);
  table.AddUnary(tenants, &TenantService::ListTenants);
  table.AddUnary(tenants, &TenantService::UpdateTenant);
  table.AddUnary(tenants, &TenantService::DeleteTenant);
}

void AddKeyRpcs(KeyService& keys, RpcTable& table) {
  table.AddUnary(keys, &KeyService::CreateKey);
  table.AddUnary(keys, &KeyService::GetKey);
  table.AddUnary(keys, &KeyService::ListKeys);
  table.AddUnary(keys, &KeyService::RevokeKey);
}

void AddDeadLetterRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<DeadLetterService>(masters, &MasterService::dead_letters, table)
      .Add(&DeadLetterService::ListDeadLetters)
      .Add(&DeadLetterService::ListDeadLetterGroups)
      .Add(&DeadLetterService::GetDeadLetter)
      .Add(&DeadLetterService::RedriveDeadLetter)
      .Add(&DeadLetterService::RedriveDeadLetters)
      .Add(&DeadLetterService::RedriveRun)
      .Add(&DeadLetterService::PurgeDeadLetters);
}

void AddOperationRpcs(CellMasters& masters, RpcTable& table) {
  OfTenant<OperationService>(masters, &MasterService::operations, table)
      .Add(&OperationService::GetOperation)
      .Add(&OperationService::ListOperations)
      .Add(&OperationService::CancelOperation);
}

void AddCellRpcs(CellService& cells, RpcTable& table) {
  table.AddUnary(cells, &CellService::CreateCell);
  table.AddUnary(cells, &CellService::GetCell);
  table.AddUnary(cells, &CellService::ListCells);
  table.AddUnary(cells, &CellService::UpdateCell);
  table.AddUnary(cells, &CellService::GetCellStatus);
}

}  // namespace

void AddMasterRpcs(CellMasters& masters, RpcTable& table) {
  AddScheduleRpcs(masters, table);
  AddEventRpcs(masters.events(), table);
  AddRunRpcs(masters, table);
  AddPolicyRpcs(masters, table);
  AddCalendarRpcs(masters, table);
  AddSubscriptionRpcs(masters, table);
  AddDeadLetterRpcs(masters, table);
  AddOperationRpcs(masters, table);
  OfTenant<AuditService>(masters, &MasterService::audit, table)
      .Add(&AuditService::ListAuditEntries);
  OfTenant<TargetService>(masters, &MasterService::targets, table)
      .Add(&TargetService::ListTargets)
      .Add(&TargetService::GetTarget)
      .Add(&TargetService::ResetTarget);
  OfTenant<StatisticsService>(masters, &MasterService::statistics, table)
      .Add(&StatisticsService::ListStatistics);
  OfTenant<EventCancelService>(masters, &MasterService::event_cancels, table)
      .Add(&EventCancelService::BatchCancelEvents);
  OfTenant<ExplainService>(masters, &MasterService::explanations, table)
      .Add(&ExplainService::ExplainEvent)
      .Add(&ExplainService::ExplainSchedule);
  OfTenant<TenantService>(masters, &MasterService::tenants, table)
      .Add(&TenantService::GetTenantUsage);
  // The home cell has all tenants, keys and cells.
  AddTenantRpcs(masters.home().tenants(), table);
  AddKeyRpcs(masters.home().keys(), table);
  AddCellRpcs(masters.home().cells(), table);
}

}  // namespace escapement::master
