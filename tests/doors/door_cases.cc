#include "tests/doors/door_cases.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_requests.h"

namespace escapement::doors {

const std::vector<DoorCase>& DoorCases() {
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
  constexpr absl::StatusCode kExists = absl::StatusCode::kAlreadyExists;
  constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;
  constexpr absl::StatusCode kState = absl::StatusCode::kFailedPrecondition;
  static const auto* const cases = new std::vector<DoorCase>{
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "s@" request_id: "one-@"
          schedule { cron: "0 3 1 1 *" event_count: 2 labels { key: "a" value: "b/ä" }
                     target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "s@" request_id: "one-@"
          schedule { cron: "0 3 1 1 *" event_count: 2 labels { key: "a" value: "b/ä" }
                     target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "s@"
          schedule { cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })",
       kExists},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "t@" validate_only: true
          schedule { interval { every { seconds: 60 } }
                     target { grpc { uri: "127.0.0.1:9" } } })"},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "Bad Id"
          schedule { cron: "61 * * * *" })",
       kInvalid},
      {"GetSchedule", R"(name: "tenants/default/schedules/s@")"},
      {"GetSchedule", R"(name: "tenants/default/schedules/none")", kNotFound},
      {"UpdateSchedule", R"(schedule { name: "tenants/default/schedules/s@" display_name: "D" }
          update_mask { paths: "display_name" })"},
      {"UpdateSchedule", R"(schedule { name: "tenants/default/schedules/s@" etag: "\"1-1\""
          display_name: "E" })",
       kAborted},
      {"UpdateSchedule", R"(schedule { name: "tenants/default/schedules/s@" display_name: "E" }
          update_mask { paths: "nothing" })",
       kInvalid},
      {"BatchCreateSchedules", R"(parent: "tenants/default"
          requests { schedule_id: "b@1" schedule { cron: "0 3 1 1 *" payload: "1"
                     target { http { uri: "http://127.0.0.1:9/" } } } }
          requests { schedule_id: "b@2" schedule { cron: "61 * * * *" } }
          requests { schedule_id: "s@" schedule { cron: "0 3 1 1 *"
                     target { http { uri: "http://127.0.0.1:9/" } } } })"},
      {"BatchCreateSchedules", R"(parent: "tenants/default")", kInvalid},
      {"BatchUpdateSchedules", R"(parent: "tenants/default"
          requests { schedule { name: "tenants/default/schedules/b@1" display_name: "B" } }
          requests { schedule { name: "tenants/default/schedules/none" display_name: "B" } })"},
      {"BatchUpdateSchedules", R"(parent: "tenants/default")", kInvalid},
      {"BatchDeleteSchedules", R"(parent: "tenants/default"
          requests { name: "tenants/default/schedules/b@1" }
          requests { name: "tenants/default/schedules/none" })"},
      {"BatchDeleteSchedules", R"(parent: "tenants/default")", kInvalid},
      {"PauseSchedule", R"(name: "tenants/default/schedules/s@" validate_only: true)"},
      {"PauseSchedule", R"(name: "tenants/default/schedules/s@" reason: "by hand")"},
      {"PauseSchedule", R"(name: "tenants/default/schedules/s@" etag: "\"0-0\"")", kAborted},
      {"ResumeSchedule", R"(name: "tenants/default/schedules/s@")"},
      {"ResumeSchedule", R"(name: "tenants/default/schedules/s@" etag: "\"0-0\"")", kAborted},
      {"TriggerSchedule", R"(name: "tenants/default/schedules/none")", kNotFound},
      {"TriggerSchedule", R"(name: "tenants/default/schedules/s@" etag: "\"0-0\"")", kAborted},
      {"TriggerSchedule", R"(name: "tenants/default/schedules/s@" event_count: 1)"},
      {"BackfillSchedule", R"(name: "tenants/default/schedules/s@"
          start_time { seconds: 1577836800 } end_time { seconds: 1577836801 })"},
      {"BackfillSchedule", R"(name: "tenants/default/schedules/s@")", kInvalid},
      {"BackfillSchedule", R"(name: "tenants/default/schedules/s@" etag: "\"0-0\""
          start_time { seconds: 1577836800 } end_time { seconds: 1577836801 })",
       kAborted},
      {"PreviewSchedule", R"(parent: "tenants/default" cron: "0 3,6,9 * * *"
          time_zone: "Asia/Kolkata" count: 3
          from_time { seconds: 1800000000 })"},
      {"PreviewSchedule", R"(parent: "tenants/default" cron: "x")", kInvalid},
      {"PreviewSchedule", R"(cron: "0 3 * * *" parent: "tenants/default" calendar: "none")",
       kState},
      {"ListOccurrences", R"(parent: "tenants/default/schedules/s@" page_size: 1
          start_time { seconds: 4000000000 } end_time { seconds: 4002678400 })"},
      {"ListOccurrences", R"(parent: "tenants/default/schedules/s@"
          filter: "result != PENDING AND NOT result = LATE")"},
      {"ListOccurrences", R"(parent: "tenants/default/schedules/none")", kNotFound},
      {"ListOccurrences", R"(parent: "tenants/default/schedules/s@" filter: "reason = x")",
       kInvalid},
      {"ExplainSchedule", R"(name: "tenants/default/schedules/s@")"},
      {"ExplainSchedule", R"(name: "tenants/default/schedules/none")", kNotFound},
      {"ListScheduleVersions", R"(parent: "tenants/default/schedules/s@")"},
      {"ListScheduleVersions", R"(parent: "tenants/default/schedules/none")", kNotFound},
      {"ListScheduleVersions", R"(parent: "tenants/default/schedules/None")", kInvalid},
      {"ForecastLoad", R"(parent: "tenants/default" duration { seconds: 120 } group_by: "policy"
          filter: "name = none")"},
      {"ForecastLoad", R"(parent: "tenants/default" duration { seconds: 1 })", kInvalid},
      {"ListSchedules", R"(parent: "tenants/default" page_size: 1)"},
      {"ListSchedules", R"(parent: "tenants/default" page_size: -1)", kInvalid},
      {"ListSchedules", R"(parent: "tenants/default" page_token: "forged")", kInvalid},
      {"CreatePolicy", R"(parent: "tenants/default" policy_id: "p@"
          policy { max_concurrent: 3 max_per_second: 1.5 hold_timeout { seconds: 60 } })"},
      {"CreatePolicy", R"(parent: "tenants/default" policy_id: "q@" policy {})", kInvalid},
      {"GetPolicy", R"(name: "tenants/default/policies/p@")"},
      {"GetPolicy", R"(name: "tenants/default/policies/none")", kNotFound},
      {"ListPolicies", R"(parent: "tenants/default")"},
      {"ListPolicies", R"(parent: "tenants/default" order_by: "name desc"
          filter: "name = \"p*\" AND max_concurrent <= 3")"},
      {"ListPolicies", R"(parent: "tenants/default" filter: "max_concurrent = many")", kInvalid},
      {"UpdatePolicy", R"(policy { name: "tenants/default/policies/p@" max_concurrent: 4 }
          update_mask { paths: "max_concurrent" })"},
      {"UpdatePolicy", R"(policy { name: "tenants/default/policies/p@" etag: "\"0\""
          max_concurrent: 5 })",
       kAborted},
      {"PausePolicy", R"(name: "tenants/default/policies/p@" etag: "\"0\"")", kAborted},
      {"PausePolicy", R"(name: "tenants/default/policies/p@")"},
      {"ResumePolicy", R"(name: "tenants/default/policies/p@" etag: "\"0\"")", kAborted},
      {"ResumePolicy", R"(name: "tenants/default/policies/p@")"},
      {"OverridePolicy", absl::StrCat(R"(name: "tenants/default/policies/p@" override {
          max_concurrent: 0 max_per_second: 0.5 reason: "R" expire_time { seconds: )",
                                      SoonSeconds(), "} }")},
      {"OverridePolicy",
       absl::StrCat(R"(name: "tenants/default/policies/p@" override { policy_key: ""
          max_concurrent: 1 reason: "R" expire_time { seconds: )",
                    SoonSeconds(), "} }"),
       kInvalid},
      {"OverridePolicy",
       absl::StrCat(R"(name: "tenants/default/policies/p@" etag: "\"0\"" override {
          max_concurrent: 1 reason: "R" expire_time { seconds: )",
                    SoonSeconds(), "} }"),
       kAborted},
      {"ListPolicyKeys", R"(name: "tenants/default/policies/p@" prefix: "a/ä" page_size: 1)"},
      {"ListPolicyKeys", R"(name: "tenants/default/policies/none")", kNotFound},
      {"GetPolicyUsage", R"(name: "tenants/default/policies/p@")"},
      {"ClearOverride", R"(name: "tenants/default/policies/p@" etag: "\"0\"")", kAborted},
      {"ClearOverride", R"(name: "tenants/default/policies/p@" policy_key: "a")", kState},
      {"ClearOverride", R"(name: "tenants/default/policies/p@")"},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@" etag: "\"0\"")", kAborted},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@" validate_only: true)"},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@")"},
      {"CreateCalendar", R"(parent: "tenants/default" calendar_id: "k@" calendar {
          display_name: "Ä" dates: "2027-05-01" dates: "2027-01-01" rules: "* * SAT,SUN"
          except_dates: "2027-01-02" })"},
      {"CreateCalendar", R"(parent: "tenants/default" calendar_id: "l@" calendar { calendars: "k@"
          ics: "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\n"
               "RRULE:FREQ=YEARLY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n" })"},
      {"CreateCalendar", R"(parent: "tenants/default" calendar_id: "m@" calendar {
          dates: "2027-02-29" rules: "* *" })",
       kInvalid},
      {"GetCalendar", R"(name: "tenants/default/calendars/k@")"},
      {"GetCalendar", R"(name: "tenants/default/calendars/none")", kNotFound},
      {"ListCalendars", R"(parent: "tenants/default" page_size: 1)"},
      {"ListCalendars", R"(parent: "tenants/default" page_token: "forged")", kInvalid},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "t@" validate_only: true
          schedule { cron: "0 9 L * *" calendar: "l@" on_excluded: PREVIOUS
                     target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateSchedule", R"(parent: "tenants/default" schedule_id: "t@" schedule {
          cron: "0 9 L * *" calendar: "none" target { http { uri: "http://127.0.0.1:9/" } } })",
       kState},
      {"UpdateCalendar", R"(calendar { name: "tenants/default/calendars/k@" dates: "2027-05-02" }
          update_mask { paths: "dates" })"},
      {"UpdateCalendar", R"(calendar { name: "tenants/default/calendars/k@" etag: "\"0\""
          display_name: "x" })",
       kAborted},
      {"UpdateCalendar", R"(calendar { name: "tenants/default/calendars/k@" calendars: "l@" })",
       kInvalid},
      {"DeleteCalendar", R"(name: "tenants/default/calendars/k@")", kState},
      {"DeleteCalendar", R"(name: "tenants/default/calendars/l@" etag: "\"0\"")", kAborted},
      {"DeleteCalendar", R"(name: "tenants/default/calendars/l@" validate_only: true)"},
      {"DeleteCalendar", R"(name: "tenants/default/calendars/l@")"},
      {"DeleteCalendar", R"(name: "tenants/default/calendars/k@")"},
      {"CreateSubscription", R"(parent: "tenants/default" subscription_id: "k@" subscription {
          display_name: "Ä" filter: "name = none" kinds: MISSED kinds: FAILED
          late_by { seconds: 60 } target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateSubscription", R"(parent: "tenants/default" subscription_id: "k@" subscription {
          target { http { uri: "http://127.0.0.1:9/" } } })",
       kExists},
      {"CreateSubscription", R"(parent: "tenants/default" subscription_id: "l@" validate_only: true
          subscription { target { slack {
              webhook_url: "https://hooks.slack.com/services/T/B/x" } } })"},
      {"CreateSubscription", R"(parent: "tenants/default" subscription_id: "l@" subscription {
          filter: "colour = red" kinds: KIND_UNSPECIFIED late_by { nanos: 1 } })",
       kInvalid},
      {"GetSubscription", R"(name: "tenants/default/subscriptions/k@")"},
      {"GetSubscription", R"(name: "tenants/default/subscriptions/none")", kNotFound},
      {"ListSubscriptions", R"(parent: "tenants/default" page_size: 1)"},
      {"ListSubscriptions", R"(parent: "tenants/default" page_token: "forged")", kInvalid},
      {"UpdateSubscription", R"(subscription { name: "tenants/default/subscriptions/k@"
          kinds: AT_RISK } update_mask { paths: "kinds" })"},
      {"UpdateSubscription", R"(subscription { name: "tenants/default/subscriptions/k@"
          etag: "\"0\"" display_name: "x" })",
       kAborted},
      {"UpdateSubscription", R"(subscription { name: "tenants/default/subscriptions/k@" }
          update_mask { paths: "target" })",
       kInvalid},
      {"TestSubscription", R"(name: "tenants/default/subscriptions/k@")"},
      {"TestSubscription", R"(name: "tenants/default/subscriptions/k@" validate_only: true)"},
      {"TestSubscription", R"(name: "tenants/default/subscriptions/none")", kNotFound},
      {"DeleteSubscription", R"(name: "tenants/default/subscriptions/k@" etag: "\"0\"")", kAborted},
      {"DeleteSubscription", R"(name: "tenants/default/subscriptions/k@" validate_only: true)"},
      {"DeleteSubscription", R"(name: "tenants/default/subscriptions/k@")"},
      {"DeleteSubscription", R"(name: "tenants/default/subscriptions/k@")", kNotFound},
      {"CreateEvent", R"(parent: "tenants/default" event_id: "e@" validate_only: true
          event { due_time { seconds: 4000000000 }
                  target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateEvent", R"(parent: "tenants/default" event_id: "e@" event { payload: "\001\377"
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"CreateEvent", R"(parent: "tenants/default" event { })", kInvalid},
      {"BatchCreateEvents", R"(parent: "tenants/default"
          requests { event_id: "f@1" event { due_time { seconds: 4000000000 }
                     target { http { uri: "http://127.0.0.1:9/" } } } }
          requests { event_id: "f@2" event { due_time { seconds: 4000000000 }
                     target { grpc { uri: "127.0.0.1:9" } } } })"},
      {"BatchCreateEvents", R"(parent: "tenants/default")", kInvalid},
      {"UpsertEvent", R"(event { name: "tenants/default/events/u@" payload: "1"
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })"},
      {"UpsertEvent", R"(event { name: "tenants/default/events/u@" payload: "2" priority: 3
          due_time { seconds: 4000000001 } target { grpc { uri: "127.0.0.1:9" } } }
          replace_ended: true)"},
      {"UpsertEvent", R"(event { name: "tenants/default/events/u@" etag: "0" payload: "3"
          target { http { uri: "http://127.0.0.1:9/" } } })",
       kAborted},
      {"UpsertEvent", R"(event { name: "tenants/default/events/u@" })", kInvalid},
      {"UpdateEvent", R"(event { name: "tenants/default/events/u@" priority: 1 }
          update_mask { paths: "priority" })"},
      {"UpdateEvent", R"(event { name: "tenants/default/events/none" priority: 1 })", kNotFound},
      {"UpdateEvent", R"(event { name: "tenants/default/events/u@" etag: "0" priority: 1 })",
       kAborted},
      {"CancelEvent", R"(name: "tenants/default/events/u@" etag: "0")", kAborted},
      {"GetEvent", R"(name: "tenants/default/events/e@")"},
      {"ExplainEvent", R"(name: "tenants/default/events/e@")"},
      {"ExplainEvent",
       R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC/events/0")", kNotFound},
      {"ListEvents", R"(parent: "tenants/default" page_size: 1 order_by: "due_time desc"
          filter: "name = \"f@*\" AND target = http AND due_time > \"2030-01-01T00:00:00Z\"")"},
      {"ListEvents", R"(parent: "tenants/default" filter: "a = b" order_by: "size")", kInvalid},
      {"CancelEvent", R"(name: "tenants/default/events/e@")"},
      {"ListEvents", R"(parent: "tenants/default" filter: "name = e@ AND outcome = CANCELLED")"},
      {"CancelEvent", R"(name: "tenants/default/events/e@")", kState},
      {"CancelEvent", R"(name: "tenants/default/events/none")", kNotFound},
      {"BatchCancelEvents", R"(parent: "tenants/default" names: "tenants/default/events/f@1"
          names: "tenants/default/events/none")"},
      {"BatchCancelEvents", R"(parent: "tenants/default" filter: "outcome = FAILED")", kInvalid},
      {"ListRuns", R"(parent: "tenants/default/schedules/s@" page_size: 5
          filter: "state = SKIPPED" order_by: "nominal_time desc")"},
      {"ListRuns", R"(parent: "tenants/default/schedules/s@" filter: "colour = red")", kInvalid},
      {"GetRun", R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")", kNotFound},
      {"ListRunEvents", R"(parent: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")",
       kNotFound},
      {"CancelRun", R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")",
       kNotFound},
      {"ListDeadLetters", R"(parent: "tenants/default" page_size: 5 order_by: "create_time"
          filter: "schedule = s@ AND reason : \"503\"")"},
      {"ListDeadLetters", R"(parent: "tenants/default" filter: "a = b" order_by: "size")",
       kInvalid},
      {"ListDeadLetters", R"(parent: "tenants/default" page_token: "forged")", kInvalid},
      {"ListDeadLetterGroups", R"(parent: "tenants/default" filter: "error = \"lost #*\""
          start_time { seconds: 1790000000 } end_time { seconds: 1790003600 })"},
      {"ListDeadLetterGroups", R"(parent: "tenants/default" filter: "error > x"
          start_time { seconds: 1790003600 } end_time { seconds: 1790000000 })",
       kInvalid},
      {"GetDeadLetter", R"(name: "tenants/default/deadLetters/00063f0000000000-none")", kNotFound},
      {"GetDeadLetter", R"(name: "tenants/default/deadLetters/none")", kInvalid},
      {"RedriveDeadLetter", R"(name: "tenants/default/deadLetters/00063f0000000000-none")",
       kNotFound},
      {"RedriveDeadLetters", R"(parent: "tenants/default" filter: "schedule = s@"
          max_per_second: 0.5)"},
      {"RedriveDeadLetters", R"(parent: "tenants/default" filter: "a = b" max_per_second: -1)",
       kInvalid},
      {"RedriveRun", R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC"
          validate_only: true)"},
      {"RedriveRun", R"(name: "tenants/default/schedules/none/runs/20260101T000000-0-UTC")",
       kNotFound},
      {"PurgeDeadLetters", R"(parent: "tenants/default" filter: "schedule = s@")"},
      {"PurgeDeadLetters", R"(parent: "tenants/default" filter: "schedule = s@" force: true)"},
      {"PurgeDeadLetters", R"(parent: "tenants/default" filter: "schedule >= s@")", kInvalid},
      {"GetOperation", R"(name: "tenants/default/operations/none")", kNotFound},
      {"GetOperation", R"(name: "tenants/default/operations/None")", kInvalid},
      {"ListOperations", R"(parent: "tenants/default" page_size: 1
          filter: "kind = PURGE AND state != FAILED")"},
      {"ListOperations", R"(parent: "tenants/default" filter: "kind = SALE")", kInvalid},
      {"CancelOperation", R"(name: "tenants/default/operations/none")", kNotFound},
      {"CompleteTokens", R"(completions { token: "forged" outcome: SUCCEEDED })"},
      {"CompleteTokens", "", kInvalid},
      {"ReleaseTokens", R"(tokens: "forged")"},
      {"ExtendTokens", R"(tokens: "forged" hold { seconds: 5 })"},
      {"ExtendTokens", R"(tokens: "forged" hold { seconds: -5 })", kInvalid},
      {"GetClock", ""},
      {"ConfirmClock", ""},
      {"GetStatus", ""},
      {"HandOver", "", kState},
      {"DeleteSchedule", R"(name: "tenants/default/schedules/s@" etag: "\"1-1\"")", kAborted},
      {"DeleteSchedule", R"(name: "tenants/default/schedules/s@" validate_only: true)"},
      {"DeleteSchedule", R"(name: "tenants/default/schedules/s@")"},
      {"DeleteSchedule", R"(name: "tenants/default/schedules/s@")", kNotFound},
      {"CreateTenant", R"(tenant_id: "t@" validate_only: true)"},
      {"CreateTenant", R"(tenant_id: "t@" request_id: "tenant-@"
          tenant { display_name: "T" quotas { max_schedules: 3 max_requests_per_second: 100 } })"},
      {"CreateTenant", R"(tenant_id: "t@" request_id: "tenant-@"
          tenant { display_name: "T" quotas { max_schedules: 3 max_requests_per_second: 100 } })"},
      {"CreateTenant", R"(tenant_id: "t@")", kExists},
      {"CreateTenant", R"(tenant_id: "Bad_Id" tenant { quotas { max_policies: -1 } })", kInvalid},
      {"GetTenant", R"(name: "tenants/t@")"},
      {"GetTenant", R"(name: "tenants/none")", kNotFound},
      {"GetTenant", R"(name: "tenants/-")", kInvalid},
      {"ListTenants", R"(page_size: 1)"},
      {"ListTenants", R"(page_size: -1)", kInvalid},
      {"ListTenants", R"(page_token: "forged")", kInvalid},
      {"GetTenantUsage", R"(name: "tenants/t@")"},
      {"GetTenantUsage", R"(name: "tenants/none")", kNotFound},
      {"UpdateTenant", R"(tenant { name: "tenants/t@" quotas { max_schedules: 5 } }
          update_mask { paths: "quotas.max_schedules" } request_id: "up-@")"},
      {"UpdateTenant", R"(tenant { name: "tenants/t@" etag: "\"1-1\"" display_name: "E" })",
       kAborted},
      {"UpdateTenant", R"(tenant { name: "tenants/t@" display_name: "E" }
          update_mask { paths: "colour" })",
       kInvalid},
      {"UpdateTenant", R"(tenant { name: "tenants/none" display_name: "E" })", kNotFound},
      {"DeleteTenant", R"(name: "tenants/t@" etag: "\"0-0\"")", kAborted},
      {"DeleteTenant", R"(name: "tenants/t@")", kState},
      {"DeleteTenant", R"(name: "tenants/default")", kState},
      {"DeleteTenant", R"(name: "tenants/none")", kNotFound},
      {"CreateTenant", R"(tenant_id: "u@" tenant { cell: "cells/7" })", kState},
      {"ListCells", ""},
      {"GetCell", R"(name: "cells/0")"},
      {"GetCell", R"(name: "cells/7")", kNotFound},
      {"GetCell", R"(name: "cells/64")", kInvalid},
      {"CreateCell", R"(cell_id: "0" cell { store_address: "nowhere" weight: -1 })", kInvalid},
      {"UpdateCell", R"(cell { name: "cells/0" weight: 2 } validate_only: true)"},
      {"UpdateCell", R"(cell { name: "cells/0" etag: "\"9\"" weight: 3 })", kAborted},
      {"UpdateCell", R"(cell { name: "cells/7" weight: 3 })", kNotFound},
      {"GetCellStatus", R"(name: "cells/7")", kNotFound},
      {"CreateKey", R"(parent: "tenants/default" key { role: VIEWER display_name: "K" })"},
      {"CreateKey", R"(parent: "tenants/-" key { role: ADMIN } validate_only: true)"},
      {"CreateKey", R"(parent: "tenants/default" key { role: SERVICE
          expire_time { seconds: 1 } })",
       kInvalid},
      {"CreateKey", R"(parent: "tenants/none" key { role: VIEWER })", kNotFound},
      {"GetKey", R"(name: "tenants/default/keys/$KEY")"},
      {"GetKey", R"(name: "tenants/-/keys/0123456789abcdef")"},
      {"GetKey", R"(name: "tenants/default/keys/0123456789abcdef")", kNotFound},
      {"ListKeys", R"(parent: "tenants/-")"},
      {"ListKeys", R"(parent: "tenants/default" page_size: -1)", kInvalid},
      {"ListKeys", R"(parent: "tenants/default" page_token: "forged")", kInvalid},
      {"RevokeKey", R"(name: "tenants/default/keys/$KEY")"},
      {"RevokeKey", R"(name: "tenants/default/keys/$KEY")"},
      {"RevokeKey", R"(name: "tenants/default/keys/none")", kNotFound},
      {"ListAuditEntries", R"(parent: "tenants/default" page_size: 3
          filter: "method = CreateSchedule AND result = OK")"},
      {"ListAuditEntries", R"(parent: "tenants/-")"},
      {"ListAuditEntries", R"(parent: "tenants/none")", kNotFound},
      {"ListAuditEntries", R"(parent: "tenants/default" filter: "colour = red" page_size: -1)",
       kInvalid},
      {"ListTargets", R"(parent: "tenants/default" page_size: 1)"},
      {"ListTargets", R"(parent: "tenants/none")", kNotFound},
      {"ListTargets", R"(parent: "tenants/default" page_size: -1 page_token: "forged")", kInvalid},
      {"ListStatistics", R"(parent: "tenants/default" start_time { seconds: 1800000000 }
          end_time { seconds: 1800003600 } step { seconds: 600 })"},
      {"ListStatistics", R"(parent: "tenants/default" subject: "tenants/default/policies/p"
          start_time { seconds: 1800000000 } end_time { seconds: 1800000060 })"},
      {"ListStatistics", R"(parent: "tenants/none")", kNotFound},
      {"ListStatistics", R"(parent: "tenants/default" subject: "tenants/other/policies/p"
          step { seconds: 90 })",
       kInvalid},
      {"GetTarget", R"(name: "tenants/default/targets/0123456789abcdef0123456789abcdef")",
       kNotFound},
      {"GetTarget", R"(name: "tenants/default/targets/none")", kInvalid},
      {"ResetTarget", R"(name: "tenants/default/targets/0123456789abcdef0123456789abcdef")",
       kNotFound},
      {"ResetTarget", R"(name: "tenants/default/targets/none")", kInvalid},
  };
  return *cases;
}

namespace {

using nlohmann::json;

json JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return {};
  return json::parse(text);
}

std::string Encoded(absl::string_view text, absl::string_view kept = "") {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-_.~", c) || absl::StrContains(kept, c)) {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "%", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return out;
}

// Removes the value at "a.b" and returns its text; "" if there is none.
std::string Take(json& object, absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  json* owner = &object;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!owner->contains(parts[i])) return {};
    owner = &(*owner)[parts[i]];
  }
  const std::string text = owner->value(parts.back(), std::string());
  owner->erase(parts.back());
  return text;
}

void AddQuery(const json& value, const std::string& name, std::vector<std::string>& query) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      AddQuery(member, name.empty() ? key : absl::StrCat(name, ".", key), query);
  } else if (value.is_array()) {
    for (const json& element : value) AddQuery(element, name, query);
  } else {
    query.push_back(absl::StrCat(
        name, "=", Encoded(value.is_string() ? value.get<std::string>() : value.dump())));
  }
}

}  // namespace

integration::HttpCall RestCallOf(const rest::RestRoute& route,
                                 const google::protobuf::Message& request) {
  json fields = JsonOf(request);
  integration::HttpCall call{.method = route.http_method};
  absl::string_view rest = route.path.text();
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    absl::StrAppend(&call.path, rest.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = rest.find('}');
    absl::string_view variable = rest.substr(open + 1, close - open - 1);
    variable = variable.substr(0, variable.find('='));
    absl::StrAppend(&call.path, Encoded(Take(fields, variable), "/"));
    rest.remove_prefix(close + 1);
  }
  if (route.body == "*") {
    call.body = fields.dump();
  } else {
    if (!route.body.empty() && fields.contains(route.body)) {
      call.body = fields[route.body].dump();
      fields.erase(route.body);
    }
    std::vector<std::string> query;
    AddQuery(fields, "", query);
    if (!query.empty()) absl::StrAppend(&call.path, "?", absl::StrJoin(query, "&"));
  }
  return call;
}

namespace {

using nlohmann::json;

bool HasType(const std::string& type, const json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return false;
}

std::string ObjectMismatch(const json& document, const json& schema, const json& value,
                           const std::string& place) {
  static const json* const none = new json(json::object());
  const json& properties = schema.contains("properties") ? schema["properties"] : *none;
  for (const auto& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>()))
      return absl::StrCat(place, ": has no ", name.get<std::string>());
  }
  for (const auto& [name, member] : value.items()) {
    const std::string inner = absl::StrCat(place, ".", name);
    const json* member_schema = nullptr;
    if (properties.contains(name)) {
      member_schema = &properties[name];
    } else if (schema.value("additionalProperties", json()) == json(true)) {
      continue;
    } else if (schema.contains("additionalProperties") &&
               schema["additionalProperties"].is_object()) {
      member_schema = &schema["additionalProperties"];
    } else {
      return absl::StrCat(inner, ": is not in the schema");
    }
    if (std::string wrong = SchemaMismatch(document, *member_schema, member, inner); !wrong.empty())
      return wrong;
  }
  return {};
}

}  // namespace

std::string SchemaMismatch(const json& document, const json& schema, const json& value,
                           const std::string& place) {
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    if (!absl::StartsWith(ref, "#")) return absl::StrCat(place, ": refers to ", ref);
    return SchemaMismatch(document, document.at(json::json_pointer(ref.substr(1))), value, place);
  }
  if (!schema.contains("type")) return absl::StrCat(place, ": the schema has no type");
  const std::string type = schema["type"];
  if (!HasType(type, value)) return absl::StrCat(place, ": is no ", type, ": ", value.dump());
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return absl::StrCat(place, ": is not in the enum: ", value.dump());
  if (type == "object") return ObjectMismatch(document, schema, value, place);
  if (type == "array") {
    for (size_t i = 0; i < value.size(); ++i) {
      if (std::string wrong = SchemaMismatch(document, schema.at("items"), value[i],
                                             absl::StrCat(place, "[", i, "]"));
          !wrong.empty())
        return wrong;
    }
  }
  return {};
}

}  // namespace escapement::doors
