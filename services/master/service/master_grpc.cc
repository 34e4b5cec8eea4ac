#include "services/master/service/master_grpc.h"

#include "common/rpc/rpc_table_grpc.h"
#include "services/master/events/event_grpc.h"

namespace escapement::master {
namespace {

void AddScheduleRpcs(ScheduleApi& schedules, RpcTable& table) {
  table.AddUnary(schedules, &ScheduleApi::CreateSchedule);
  table.AddUnary(schedules, &ScheduleApi::GetSchedule);
  table.AddUnary(schedules, &ScheduleApi::ListSchedules);
  table.AddUnary(schedules, &ScheduleApi::UpdateSchedule);
  table.AddUnary(schedules, &ScheduleApi::DeleteSchedule);
  table.AddUnary(schedules, &ScheduleApi::PauseSchedule);
  table.AddUnary(schedules, &ScheduleApi::ResumeSchedule);
  table.AddUnary(schedules, &ScheduleApi::TriggerSchedule);
  table.AddUnary(schedules, &ScheduleApi::BackfillSchedule);
  table.AddUnary(schedules, &ScheduleApi::PreviewSchedule);
}

void AddRunRpcs(RunApi& runs, RpcTable& table) {
  table.AddUnary(runs, &RunApi::ListRuns);
  table.AddUnary(runs, &RunApi::GetRun);
  table.AddUnary(runs, &RunApi::ListRunEvents);
  table.AddUnary(runs, &RunApi::CancelRun);
}

void AddPolicyRpcs(PolicyApi& policies, RpcTable& table) {
  table.AddUnary(policies, &PolicyApi::CreatePolicy);
  table.AddUnary(policies, &PolicyApi::GetPolicy);
  table.AddUnary(policies, &PolicyApi::ListPolicies);
  table.AddUnary(policies, &PolicyApi::UpdatePolicy);
  table.AddUnary(policies, &PolicyApi::DeletePolicy);
  table.AddUnary(policies, &PolicyApi::PausePolicy);
  table.AddUnary(policies, &PolicyApi::ResumePolicy);
  table.AddUnary(policies, &PolicyApi::GetPolicyUsage);
}

void AddTenantRpcs(TenantApi& tenants, RpcTable& table) {
  table.AddUnary(tenants, &TenantApi::CreateTenant);
  table.AddUnary(tenants, &TenantApi::GetTenant);
  table.AddUnary(tenants, &TenantApi::ListTenants);
  table.AddUnary(tenants, &TenantApi::UpdateTenant);
  table.AddUnary(tenants, &TenantApi::DeleteTenant);
  table.AddUnary(tenants, &TenantApi::GetTenantUsage);
}

void AddKeyRpcs(KeyApi& keys, RpcTable& table) {
  table.AddUnary(keys, &KeyApi::CreateKey);
  table.AddUnary(keys, &KeyApi::GetKey);
  table.AddUnary(keys, &KeyApi::ListKeys);
  table.AddUnary(keys, &KeyApi::RevokeKey);
}

void AddDeadLetterRpcs(DeadLetterApi& dead_letters, RpcTable& table) {
  table.AddUnary(dead_letters, &DeadLetterApi::ListDeadLetters);
  table.AddUnary(dead_letters, &DeadLetterApi::GetDeadLetter);
  table.AddUnary(dead_letters, &DeadLetterApi::RedriveDeadLetter);
  table.AddUnary(dead_letters, &DeadLetterApi::RedriveDeadLetters);
  table.AddUnary(dead_letters, &DeadLetterApi::RedriveRun);
  table.AddUnary(dead_letters, &DeadLetterApi::PurgeDeadLetters);
}

void AddOperationRpcs(OperationApi& operations, RpcTable& table) {
  table.AddUnary(operations, &OperationApi::GetOperation);
  table.AddUnary(operations, &OperationApi::ListOperations);
  table.AddUnary(operations, &OperationApi::CancelOperation);
}

}  // namespace

void AddMasterRpcs(const MasterApis& apis, RpcTable& table) {
  AddScheduleRpcs(apis.schedules, table);
  AddEventRpcs(apis.events, table);
  AddRunRpcs(apis.runs, table);
  AddPolicyRpcs(apis.policies, table);
  AddTenantRpcs(apis.tenants, table);
  AddKeyRpcs(apis.keys, table);
  table.AddUnary(apis.audit, &AuditApi::ListAuditEntries);
  table.AddUnary(apis.targets, &TargetApi::ListTargets);
  table.AddUnary(apis.targets, &TargetApi::GetTarget);
  AddDeadLetterRpcs(apis.dead_letters, table);
  AddOperationRpcs(apis.operations, table);
}

}  // namespace escapement::master
