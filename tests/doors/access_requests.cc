#include "tests/doors/access_requests.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::doors {

using google::protobuf::MethodDescriptor;

std::vector<const MethodDescriptor*> PublicMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const std::string& name : fixtures::PublicServices()) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

const std::map<std::string, Probe>& Probes() {
  constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
  static const auto* const probes = new std::map<std::string, Probe>{
      {"CreateSchedule", {R"(parent: "tenants/TENANT" validate_only: true schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"GetSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      {"ListSchedules", {R"(parent: "tenants/TENANT")"}},
      {"UpdateSchedule",
       {R"(schedule { name: "tenants/TENANT/schedules/none" display_name: "D" })", kNotFound}},
      {"DeleteSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      // The batch is answered; its request has a result of its own.
      {"BatchCreateSchedules",
       {R"(parent: "tenants/TENANT" validate_only: true requests { schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } } })"}},
      {"BatchUpdateSchedules", {R"(parent: "tenants/TENANT" requests { schedule {
          name: "tenants/TENANT/schedules/none" display_name: "D" } })"}},
      {"BatchDeleteSchedules", {R"(parent: "tenants/TENANT"
          requests { name: "tenants/TENANT/schedules/none" })"}},
      {"PauseSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      {"ResumeSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      {"TriggerSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      {"BackfillSchedule",
       {R"(name: "tenants/TENANT/schedules/none"
          start_time { seconds: 1577836800 } end_time { seconds: 1577836801 })",
        kNotFound}},
      {"PreviewSchedule", {R"(parent: "tenants/TENANT" cron: "0 3 * * *" count: 1)"}},
      // The schedules of the tenant fire on the first of January.
      {"ListOccurrences", {R"(parent: "tenants/TENANT/schedules/-"
          start_time { seconds: 4102444800 } end_time { seconds: 4102531200 })"}},
      {"ExplainSchedule", {R"(name: "tenants/TENANT/schedules/none")", kNotFound}},
      {"ExplainEvent", {R"(name: "tenants/TENANT/events/none")", kNotFound}},
      {"ListScheduleVersions", {R"(parent: "tenants/TENANT/schedules/none")", kNotFound}},
      {"ForecastLoad", {R"(parent: "tenants/TENANT" duration { seconds: 60 })"}},
      {"CreatePolicy", {R"(parent: "tenants/TENANT" policy_id: "v" validate_only: true
          policy { max_concurrent: 1 })"}},
      {"GetPolicy", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"ListPolicies", {R"(parent: "tenants/TENANT")"}},
      {"UpdatePolicy",
       {R"(policy { name: "tenants/TENANT/policies/none" max_concurrent: 2 })", kNotFound}},
      {"DeletePolicy", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"PausePolicy", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"ResumePolicy", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"OverridePolicy",
       {R"(name: "tenants/TENANT/policies/none" override {
          max_concurrent: 1 reason: "R" expire_time { seconds: 4000000000 } })",
        kNotFound}},
      {"ClearOverride", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"ListPolicyKeys", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"GetPolicyUsage", {R"(name: "tenants/TENANT/policies/none")", kNotFound}},
      {"CreateCalendar", {R"(parent: "tenants/TENANT" calendar_id: "v" validate_only: true
          calendar { dates: "2027-01-01" })"}},
      {"GetCalendar", {R"(name: "tenants/TENANT/calendars/none")", kNotFound}},
      {"ListCalendars", {R"(parent: "tenants/TENANT")"}},
      {"UpdateCalendar",
       {R"(calendar { name: "tenants/TENANT/calendars/none" display_name: "D" })", kNotFound}},
      {"DeleteCalendar", {R"(name: "tenants/TENANT/calendars/none")", kNotFound}},
      {"CreateSubscription", {R"(parent: "tenants/TENANT" subscription_id: "v" validate_only: true
          subscription { target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"GetSubscription", {R"(name: "tenants/TENANT/subscriptions/none")", kNotFound}},
      {"ListSubscriptions", {R"(parent: "tenants/TENANT")"}},
      {"UpdateSubscription",
       {R"(subscription { name: "tenants/TENANT/subscriptions/none" display_name: "D" })",
        kNotFound}},
      {"DeleteSubscription", {R"(name: "tenants/TENANT/subscriptions/none")", kNotFound}},
      {"TestSubscription", {R"(name: "tenants/TENANT/subscriptions/none")", kNotFound}},
      {"CreateEvent", {R"(parent: "tenants/TENANT" validate_only: true event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"BatchCreateEvents", {R"(parent: "tenants/TENANT" validate_only: true requests { event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } } })"}},
      {"UpsertEvent",
       {R"(event { name: "tenants/TENANT/events/none" } validate_only: true)",
        absl::StatusCode::kInvalidArgument}},
      {"UpdateEvent", {R"(event { name: "tenants/TENANT/events/none" priority: 1 })", kNotFound}},
      // The stream is answered; its batch, or line, is refused.
      {"Ingest", {R"(parent: "tenants/TENANT")", absl::StatusCode::kInvalidArgument}},
      {"GetEvent", {R"(name: "tenants/TENANT/events/none")", kNotFound}},
      {"ListEvents", {R"(parent: "tenants/TENANT")"}},
      {"CancelEvent", {R"(name: "tenants/TENANT/events/none")", kNotFound}},
      {"BatchCancelEvents",
       {R"(parent: "tenants/TENANT" validate_only: true filter: "state = PENDING")"}},
      {"ListRuns", {R"(parent: "tenants/TENANT/schedules/none")", kNotFound}},
      {"GetRun",
       {R"(name: "tenants/TENANT/schedules/none/runs/20260101T000000-0-UTC")", kNotFound}},
      {"ListRunEvents",
       {R"(parent: "tenants/TENANT/schedules/none/runs/20260101T000000-0-UTC")", kNotFound}},
      {"CancelRun",
       {R"(name: "tenants/TENANT/schedules/none/runs/20260101T000000-0-UTC")", kNotFound}},
      {"CompleteTokens", {R"(completions { token: "forged" outcome: SUCCEEDED })"}},
      {"ReleaseTokens", {R"(tokens: "forged")"}},
      {"ExtendTokens", {R"(tokens: "forged" hold { seconds: 5 })"}},
      {"StreamTokens", {R"(release { tokens: "forged" })"}},
      {"GetClock", {""}},
      {"ConfirmClock", {""}},
      {"GetStatus", {""}},
      {"HandOver", {"", absl::StatusCode::kFailedPrecondition}},
      {"ExportSnapshot", {""}},
      {"CreateTenant", {R"(tenant_id: "v" validate_only: true)"}},
      {"GetTenant", {R"(name: "tenants/TENANT")"}},
      {"ListTenants", {""}},
      {"UpdateTenant",
       {R"(tenant { name: "tenants/TENANT" display_name: "D" } validate_only: true)"}},
      {"DeleteTenant",
       {R"(name: "tenants/TENANT" validate_only: true)", absl::StatusCode::kFailedPrecondition}},
      {"GetTenantUsage", {R"(name: "tenants/TENANT")"}},
      {"CreateCell", {R"(cell_id: "1")", absl::StatusCode::kInvalidArgument}},
      {"GetCell", {R"(name: "cells/0")"}},
      {"ListCells", {""}},
      {"UpdateCell", {R"(cell { name: "cells/0" weight: 2 } validate_only: true)"}},
      {"GetCellStatus", {R"(name: "cells/0")"}},
      {"CreateKey", {R"(parent: "tenants/TENANT" key { role: VIEWER } validate_only: true)"}},
      {"GetKey", {R"(name: "tenants/TENANT/keys/none")", kNotFound}},
      {"ListKeys", {R"(parent: "tenants/TENANT")"}},
      {"RevokeKey", {R"(name: "tenants/TENANT/keys/none")", kNotFound}},
      {"ListAuditEntries", {R"(parent: "tenants/TENANT")"}},
      {"ListTargets", {R"(parent: "tenants/TENANT")"}},
      {"ListStatistics", {R"(parent: "tenants/TENANT")"}},
      {"GetTarget",
       {R"(name: "tenants/TENANT/targets/0123456789abcdef0123456789abcdef")", kNotFound}},
      {"ResetTarget",
       {R"(name: "tenants/TENANT/targets/0123456789abcdef0123456789abcdef")", kNotFound}},
      {"ListDeadLetters", {R"(parent: "tenants/TENANT")"}},
      {"ListDeadLetterGroups", {R"(parent: "tenants/TENANT")"}},
      {"GetDeadLetter", {R"(name: "tenants/TENANT/deadLetters/00063f0000000000-none")", kNotFound}},
      {"RedriveDeadLetter",
       {R"(name: "tenants/TENANT/deadLetters/00063f0000000000-none")", kNotFound}},
      {"RedriveDeadLetters", {R"(parent: "tenants/TENANT" validate_only: true)"}},
      {"RedriveRun",
       {R"(name: "tenants/TENANT/schedules/none/runs/20260101T000000-0-UTC")", kNotFound}},
      {"PurgeDeadLetters", {R"(parent: "tenants/TENANT")"}},
      {"GetOperation", {R"(name: "tenants/TENANT/operations/none")", kNotFound}},
      {"ListOperations", {R"(parent: "tenants/TENANT")"}},
      {"CancelOperation", {R"(name: "tenants/TENANT/operations/none")", kNotFound}},
  };
  return *probes;
}

const std::map<std::string, Repeated>& RepeatedRequests() {
  static const auto* const requests = new std::map<std::string, Repeated>{
      {"CreateSchedule",
       {R"(parent: "tenants/TENANT" request_id: "ID" schedule_id: "r" schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })",
        R"(parent: "tenants/TENANT" request_id: "ID" schedule_id: "r3" schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"UpdateSchedule",
       {R"(schedule { name: "tenants/TENANT/schedules/s2" display_name: "D" } request_id: "ID")",
        R"(schedule { name: "tenants/TENANT/schedules/s2" display_name: "E" } request_id: "ID")"}},
      {"PauseSchedule",
       {R"(name: "tenants/TENANT/schedules/s2" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s" request_id: "ID")"}},
      {"ResumeSchedule",
       {R"(name: "tenants/TENANT/schedules/s2" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s" request_id: "ID")"}},
      {"TriggerSchedule",
       {R"(name: "tenants/TENANT/schedules/s2" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s" request_id: "ID")"}},
      {"BackfillSchedule",
       {R"(name: "tenants/TENANT/schedules/s2" request_id: "ID"
          start_time { seconds: 1577836800 } end_time { seconds: 1577836801 })",
        R"(name: "tenants/TENANT/schedules/s2" request_id: "ID"
          start_time { seconds: 1577836800 } end_time { seconds: 1577836802 })"}},
      {"DeleteSchedule",
       {R"(name: "tenants/TENANT/schedules/s2" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s" request_id: "ID")"}},
      {"CreatePolicy",
       {R"(parent: "tenants/TENANT" policy_id: "r" request_id: "ID"
          policy { max_concurrent: 1 })",
        R"(parent: "tenants/TENANT" policy_id: "r" request_id: "ID"
          policy { max_concurrent: 2 })"}},
      {"UpdatePolicy",
       {R"(policy { name: "tenants/TENANT/policies/q" max_concurrent: 2 } request_id: "ID")",
        R"(policy { name: "tenants/TENANT/policies/q" max_concurrent: 3 } request_id: "ID")"}},
      {"PausePolicy",
       {R"(name: "tenants/TENANT/policies/q" request_id: "ID")",
        R"(name: "tenants/TENANT/policies/p" request_id: "ID")"}},
      {"ResumePolicy",
       {R"(name: "tenants/TENANT/policies/q" request_id: "ID")",
        R"(name: "tenants/TENANT/policies/p" request_id: "ID")"}},
      {"OverridePolicy",
       {absl::StrCat(R"(name: "tenants/TENANT/policies/q" request_id: "ID"
          override { max_concurrent: 1 reason: "R" expire_time { seconds: )",
                     SoonSeconds(), "} }"),
        absl::StrCat(R"(name: "tenants/TENANT/policies/q" request_id: "ID"
          override { max_concurrent: 2 reason: "R" expire_time { seconds: )",
                     SoonSeconds(), "} }")}},
      {"ClearOverride",
       {R"(name: "tenants/TENANT/policies/q" request_id: "ID")",
        R"(name: "tenants/TENANT/policies/p" request_id: "ID")"}},
      {"DeletePolicy",
       {R"(name: "tenants/TENANT/policies/q" request_id: "ID")",
        R"(name: "tenants/TENANT/policies/p" request_id: "ID")"}},
      {"CreateCalendar",
       {R"(parent: "tenants/TENANT" calendar_id: "r" request_id: "ID" calendar { })",
        R"(parent: "tenants/TENANT" calendar_id: "r" request_id: "ID"
          calendar { dates: "2027-01-01" })"}},
      {"UpdateCalendar",
       {R"(calendar { name: "tenants/TENANT/calendars/l" display_name: "D" } request_id: "ID")",
        R"(calendar { name: "tenants/TENANT/calendars/l" display_name: "E" } request_id: "ID")"}},
      {"DeleteCalendar",
       {R"(name: "tenants/TENANT/calendars/l" request_id: "ID")",
        R"(name: "tenants/TENANT/calendars/k" request_id: "ID")"}},
      {"CreateSubscription",
       {R"(parent: "tenants/TENANT" subscription_id: "r" request_id: "ID" subscription {
          filter: "name = none" target { http { uri: "http://127.0.0.1:9/" } } })",
        R"(parent: "tenants/TENANT" subscription_id: "r" request_id: "ID" subscription {
          target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"UpdateSubscription",
       {R"(subscription { name: "tenants/TENANT/subscriptions/l" display_name: "D" }
          request_id: "ID")",
        R"(subscription { name: "tenants/TENANT/subscriptions/l" display_name: "E" }
          request_id: "ID")"}},
      {"TestSubscription",
       {R"(name: "tenants/TENANT/subscriptions/l" request_id: "ID")",
        R"(name: "tenants/TENANT/subscriptions/k" request_id: "ID")"}},
      {"DeleteSubscription",
       {R"(name: "tenants/TENANT/subscriptions/l" request_id: "ID")",
        R"(name: "tenants/TENANT/subscriptions/k" request_id: "ID")"}},
      {"CreateEvent",
       {R"(parent: "tenants/TENANT" request_id: "ID" event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })",
        R"(parent: "tenants/TENANT" request_id: "ID" event {
          due_time { seconds: 4000000001 } target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"BatchCreateEvents",
       {R"(parent: "tenants/TENANT" request_id: "ID" requests { event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } } })",
        R"(parent: "tenants/TENANT" request_id: "ID" requests { event {
          due_time { seconds: 4000000001 } target { http { uri: "http://127.0.0.1:9/" } } } })"}},
      {"UpsertEvent",
       {R"(request_id: "ID" event { name: "tenants/TENANT/events/g"
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })",
        R"(request_id: "ID" event { name: "tenants/TENANT/events/g"
          due_time { seconds: 4000000001 } target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"UpdateEvent",
       {R"(event { name: "tenants/TENANT/events/f" priority: 2 } request_id: "ID")",
        R"(event { name: "tenants/TENANT/events/f" priority: 3 } request_id: "ID")"}},
      {"CancelEvent",
       {R"(name: "tenants/TENANT/events/f" request_id: "ID")",
        R"(name: "tenants/TENANT/events/e" request_id: "ID")"}},
      {"BatchCancelEvents",
       {R"(parent: "tenants/TENANT" filter: "event_id = none" request_id: "ID")",
        R"(parent: "tenants/TENANT" filter: "event_id = never" request_id: "ID")"}},
      {"CancelRun",
       {R"(name: "tenants/TENANT/schedules/s/runs/RUN" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s2/runs/RUN" request_id: "ID")"}},
      {"RedriveDeadLetter",
       {R"(name: "LETTER" request_id: "ID")",
        R"(name: "tenants/TENANT/deadLetters/00063f0000000000-none" request_id: "ID")"}},
      {"RedriveDeadLetters",
       {R"(parent: "tenants/TENANT" max_per_second: 0.001 request_id: "ID")",
        R"(parent: "tenants/TENANT" max_per_second: 0.002 request_id: "ID")"}},
      {"RedriveRun",
       {R"(name: "tenants/TENANT/schedules/s/runs/RUN" request_id: "ID")",
        R"(name: "tenants/TENANT/schedules/s2/runs/RUN" request_id: "ID")"}},
      {"PurgeDeadLetters",
       {R"(parent: "tenants/TENANT" force: true filter: "event_id = none" request_id: "ID")",
        R"(parent: "tenants/TENANT" force: true filter: "event_id = never" request_id: "ID")"}},
      {"CancelOperation",
       {R"(name: "OPERATION" request_id: "ID")",
        R"(name: "tenants/TENANT/operations/none" request_id: "ID")"}},
      {"CreateTenant",
       {R"(tenant_id: "new-TENANT" tenant { display_name: "N" } request_id: "ID-TENANT")",
        R"(tenant_id: "other-TENANT" request_id: "ID-TENANT")"}},
      {"UpdateTenant",
       {R"(tenant { name: "tenants/TENANT" display_name: "D" } request_id: "ID-TENANT")",
        R"(tenant { name: "tenants/TENANT" display_name: "E" } request_id: "ID-TENANT")"}},
      {"UpdateCell",
       {R"(cell { name: "cells/0" weight: 2 } request_id: "ID-TENANT")",
        R"(cell { name: "cells/0" weight: 3 } request_id: "ID-TENANT")"}},
      {"DeleteTenant",
       {R"(name: "tenants/gone-TENANT" request_id: "ID-TENANT")",
        R"(name: "tenants/TENANT" request_id: "ID-TENANT")"}},
  };
  return *requests;
}

std::string SoonSeconds() {
  return absl::StrCat(absl::ToUnixSeconds(absl::Now() + absl::Hours(1)));
}

std::unique_ptr<google::protobuf::Message> ReadRequestText(const MethodDescriptor& method,
                                                           const std::string& tenant,
                                                           const std::string& text) {
  std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(method.input_type())
          ->New());
  CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrReplaceAll(text, {{"TENANT", tenant}}), message.get()))
      << text;
  return message;
}

}  // namespace escapement::doors
