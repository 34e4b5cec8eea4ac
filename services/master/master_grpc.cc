#include "services/master/master_grpc.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_table_grpc.h"
#include "services/master/events/event_grpc.h"

namespace escapement::master {
namespace {

void AddScheduleRpcs(ScheduleApi& schedules, RpcTable& table) {
  const auto add = [&](absl::string_view name, auto method) {
    table.AddUnary(absl::StrCat("escapement.v1.ScheduleService.", name), schedules, method);
  };
  add("CreateSchedule", &ScheduleApi::CreateSchedule);
  add("GetSchedule", &ScheduleApi::GetSchedule);
  add("ListSchedules", &ScheduleApi::ListSchedules);
  add("UpdateSchedule", &ScheduleApi::UpdateSchedule);
  add("DeleteSchedule", &ScheduleApi::DeleteSchedule);
  add("PauseSchedule", &ScheduleApi::PauseSchedule);
  add("ResumeSchedule", &ScheduleApi::ResumeSchedule);
  add("TriggerSchedule", &ScheduleApi::TriggerSchedule);
  add("BackfillSchedule", &ScheduleApi::BackfillSchedule);
  add("PreviewSchedule", &ScheduleApi::PreviewSchedule);
}

void AddRunRpcs(RunApi& runs, RpcTable& table) {
  const auto add = [&](absl::string_view name, auto method) {
    table.AddUnary(absl::StrCat("escapement.v1.RunService.", name), runs, method);
  };
  add("ListRuns", &RunApi::ListRuns);
  add("GetRun", &RunApi::GetRun);
  add("ListRunEvents", &RunApi::ListRunEvents);
  add("CancelRun", &RunApi::CancelRun);
}

void AddPolicyRpcs(PolicyApi& policies, RpcTable& table) {
  const auto add = [&](absl::string_view name, auto method) {
    table.AddUnary(absl::StrCat("escapement.v1.PolicyService.", name), policies, method);
  };
  add("CreatePolicy", &PolicyApi::CreatePolicy);
  add("GetPolicy", &PolicyApi::GetPolicy);
  add("ListPolicies", &PolicyApi::ListPolicies);
  add("UpdatePolicy", &PolicyApi::UpdatePolicy);
  add("DeletePolicy", &PolicyApi::DeletePolicy);
  add("PausePolicy", &PolicyApi::PausePolicy);
  add("ResumePolicy", &PolicyApi::ResumePolicy);
  add("GetPolicyUsage", &PolicyApi::GetPolicyUsage);
}

void AddTenantRpcs(TenantApi& tenants, RpcTable& table) {
  const auto add = [&](absl::string_view name, auto method) {
    table.AddUnary(absl::StrCat("escapement.v1.TenantService.", name), tenants, method);
  };
  add("CreateTenant", &TenantApi::CreateTenant);
  add("GetTenant", &TenantApi::GetTenant);
  add("ListTenants", &TenantApi::ListTenants);
  add("UpdateTenant", &TenantApi::UpdateTenant);
  add("DeleteTenant", &TenantApi::DeleteTenant);
  add("GetTenantUsage", &TenantApi::GetTenantUsage);
}

void AddKeyRpcs(KeyApi& keys, RpcTable& table) {
  const auto add = [&](absl::string_view name, auto method) {
    table.AddUnary(absl::StrCat("escapement.v1.KeyService.", name), keys, method);
  };
  add("CreateKey", &KeyApi::CreateKey);
  add("GetKey", &KeyApi::GetKey);
  add("ListKeys", &KeyApi::ListKeys);
  add("RevokeKey", &KeyApi::RevokeKey);
}

}  // namespace

void AddMasterRpcs(const MasterApis& apis, RpcTable& table) {
  AddScheduleRpcs(apis.schedules, table);
  AddEventRpcs(apis.events, table);
  AddRunRpcs(apis.runs, table);
  AddPolicyRpcs(apis.policies, table);
  AddTenantRpcs(apis.tenants, table);
  AddKeyRpcs(apis.keys, table);
  table.AddUnary("escapement.v1.AuditService.ListAuditEntries", apis.audit,
                 &AuditApi::ListAuditEntries);
}

}  // namespace escapement::master
