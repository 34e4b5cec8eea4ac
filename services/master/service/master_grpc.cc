#include "services/master/service/master_grpc.h"

#include "common/rpc/rpc_table_grpc.h"
#include "services/master/audit/audit_service.h"
#include "services/master/calendars/calendar_service.h"
#include "services/master/events/event_grpc.h"
#include "services/master/explain/explain_service.h"
#include "services/master/keys/key_service.h"
#include "services/master/notifications/subscription_service.h"
#include "services/master/operations/dead_letter_service.h"
#include "services/master/operations/event_cancel_service.h"
#include "services/master/operations/operation_service.h"
#include "services/master/service/master_service.h"
#include "services/master/statistics/statistics_service.h"
#include "services/master/target_states/target_service.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace {

void AddScheduleRpcs(ScheduleApi& schedules, RpcTable& table) {
  table.AddUnary(schedules, &ScheduleApi::CreateSchedule);
  table.AddUnary(schedules, &ScheduleApi::GetSchedule);
  table.AddUnary(schedules, &ScheduleApi::ListSchedules);
  table.AddUnary(schedules, &ScheduleApi::UpdateSchedule);
  table.AddUnary(schedules, &ScheduleApi::DeleteSchedule);
  table.AddUnary(schedules, &ScheduleApi::BatchCreateSchedules);
  table.AddUnary(schedules, &ScheduleApi::BatchUpdateSchedules);
  table.AddUnary(schedules, &ScheduleApi::BatchDeleteSchedules);
  table.AddUnary(schedules, &ScheduleApi::PauseSchedule);
  table.AddUnary(schedules, &ScheduleApi::ResumeSchedule);
  table.AddUnary(schedules, &ScheduleApi::TriggerSchedule);
  table.AddUnary(schedules, &ScheduleApi::BackfillSchedule);
  table.AddUnary(schedules, &ScheduleApi::ListScheduleVersions);
  table.AddUnary(schedules, &ScheduleApi::PreviewSchedule);
  table.AddUnary(schedules, &ScheduleApi::ForecastLoad);
}

void AddRunRpcs(RunApi& runs, RpcTable& table) {
  table.AddUnary(runs, &RunApi::ListRuns);
  table.AddUnary(runs, &RunApi::GetRun);
  table.AddUnary(runs, &RunApi::ListRunEvents);
  table.AddUnary(runs, &RunApi::CancelRun);
  table.AddUnary(runs, &RunApi::ListOccurrences);
}

void AddPolicyRpcs(PolicyApi& policies, RpcTable& table) {
  table.AddUnary(policies, &PolicyApi::CreatePolicy);
  table.AddUnary(policies, &PolicyApi::GetPolicy);
  table.AddUnary(policies, &PolicyApi::ListPolicies);
  table.AddUnary(policies, &PolicyApi::UpdatePolicy);
  table.AddUnary(policies, &PolicyApi::DeletePolicy);
  table.AddUnary(policies, &PolicyApi::PausePolicy);
  table.AddUnary(policies, &PolicyApi::ResumePolicy);
  table.AddUnary(policies, &PolicyApi::OverridePolicy);
  table.AddUnary(policies, &PolicyApi::ClearOverride);
  table.AddUnary(policies, &PolicyApi::ListPolicyKeys);
  table.AddUnary(policies, &PolicyApi::GetPolicyUsage);
}

void AddCalendarRpcs(CalendarService& calendars, RpcTable& table) {
  table.AddUnary(calendars, &CalendarService::CreateCalendar);
  table.AddUnary(calendars, &CalendarService::GetCalendar);
  table.AddUnary(calendars, &CalendarService::ListCalendars);
  table.AddUnary(calendars, &CalendarService::UpdateCalendar);
  table.AddUnary(calendars, &CalendarService::DeleteCalendar);
}

void AddSubscriptionRpcs(SubscriptionService& subscriptions, RpcTable& table) {
  table.AddUnary(subscriptions, &SubscriptionService::CreateSubscription);
  table.AddUnary(subscriptions, &SubscriptionService::GetSubscription);
  table.AddUnary(subscriptions, &SubscriptionService::ListSubscriptions);
  table.AddUnary(subscriptions, &SubscriptionService::UpdateSubscription);
  table.AddUnary(subscriptions, &SubscriptionService::DeleteSubscription);
  table.AddUnary(subscriptions, &SubscriptionService::TestSubscription);
}

void AddTenantRpcs(TenantService& tenants, RpcTable& table) {
  table.AddUnary(tenants, &TenantService::CreateTenant);
  table.AddUnary(tenants, &TenantService::GetTenant);
  table.AddUnary(tenants, &TenantService::ListTenants);
  table.AddUnary(tenants, &TenantService::UpdateTenant);
  table.AddUnary(tenants, &TenantService::DeleteTenant);
  table.AddUnary(tenants, &TenantService::GetTenantUsage);
}

void AddKeyRpcs(KeyService& keys, RpcTable& table) {
  table.AddUnary(keys, &KeyService::CreateKey);
  table.AddUnary(keys, &KeyService::GetKey);
  table.AddUnary(keys, &KeyService::ListKeys);
  table.AddUnary(keys, &KeyService::RevokeKey);
}

void AddDeadLetterRpcs(DeadLetterService& dead_letters, RpcTable& table) {
  table.AddUnary(dead_letters, &DeadLetterService::ListDeadLetters);
  table.AddUnary(dead_letters, &DeadLetterService::ListDeadLetterGroups);
  table.AddUnary(dead_letters, &DeadLetterService::GetDeadLetter);
  table.AddUnary(dead_letters, &DeadLetterService::RedriveDeadLetter);
  table.AddUnary(dead_letters, &DeadLetterService::RedriveDeadLetters);
  table.AddUnary(dead_letters, &DeadLetterService::RedriveRun);
  table.AddUnary(dead_letters, &DeadLetterService::PurgeDeadLetters);
}

void AddOperationRpcs(OperationService& operations, RpcTable& table) {
  table.AddUnary(operations, &OperationService::GetOperation);
  table.AddUnary(operations, &OperationService::ListOperations);
  table.AddUnary(operations, &OperationService::CancelOperation);
}

}  // namespace

void AddMasterRpcs(MasterService& master, RpcTable& table) {
  AddScheduleRpcs(master.schedules(), table);
  AddEventRpcs(master.events(), table);
  AddRunRpcs(master.runs(), table);
  AddPolicyRpcs(master.policies(), table);
  AddCalendarRpcs(master.calendars(), table);
  AddSubscriptionRpcs(master.subscriptions(), table);
  AddTenantRpcs(master.tenants(), table);
  AddKeyRpcs(master.keys(), table);
  table.AddUnary(master.audit(), &AuditService::ListAuditEntries);
  table.AddUnary(master.targets(), &TargetService::ListTargets);
  table.AddUnary(master.targets(), &TargetService::GetTarget);
  table.AddUnary(master.targets(), &TargetService::ResetTarget);
  table.AddUnary(master.statistics(), &StatisticsService::ListStatistics);
  table.AddUnary(master.event_cancels(), &EventCancelService::BatchCancelEvents);
  table.AddUnary(master.explanations(), &ExplainService::ExplainEvent);
  table.AddUnary(master.explanations(), &ExplainService::ExplainSchedule);
  AddDeadLetterRpcs(master.dead_letters(), table);
  AddOperationRpcs(master.operations(), table);
}

}  // namespace escapement::master
