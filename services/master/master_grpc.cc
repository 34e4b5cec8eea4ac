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

}  // namespace

void AddMasterRpcs(const MasterApis& apis, RpcTable& table) {
  AddScheduleRpcs(apis.schedules, table);
  AddEventRpcs(apis.events, table);
  AddRunRpcs(apis.runs, table);
  AddPolicyRpcs(apis.policies, table);
}

}  // namespace escapement::master
