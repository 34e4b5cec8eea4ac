// Bad input: a clear error that names the field, and nothing is written.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace schedule_validation_test {

using Change = std::function<void(v1::Schedule&)>;

struct BadSchedule {
  std::string name;
  std::string field;
  Change change;
};

std::vector<BadSchedule> BadSchedules() {
  return {
      {"cron", "schedule.cron", [](auto& s) { s.set_cron("61 * * * *"); }},
      {"cron_missing", "schedule.cron", [](auto& s) { s.clear_cron(); }},
      {"cron_fields", "schedule.cron", [](auto& s) { s.set_cron("* * *"); }},
      {"impossible", "schedule.cron", [](auto& s) { s.set_cron("0 0 30 2 *"); }},
      {"zone", "schedule.time_zone", [](auto& s) { s.set_time_zone("Europe/Atlantis"); }},
      {"zone_offset", "schedule.time_zone", [](auto& s) { s.set_time_zone("+02:00"); }},
      {"payload", "schedule.payload", [](auto& s) { s.set_payload(std::string(262'145, 'x')); }},
      {"payload_of_sqs", "schedule.payload",
       [](auto& s) {
         s.mutable_target()->mutable_sqs()->set_queue_url("https://sqs.r-1.amazonaws.com/1/q");
         s.set_payload(std::string(260'097, 'x'));
       }},
      {"no_target", "schedule.target", [](auto& s) { s.clear_target(); }},
      {"uri_scheme", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("ftp://h/"); }},
      {"uri_host", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http:///x"); }},
      {"uri_user", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http://me:secret@h/"); }},
      {"uri_fragment", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http://h/#f"); }},
      {"uri_blank", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http://h/a b"); }},
      {"uri_crlf", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http://h/\r\nX: y"); }},
      {"uri_port", "schedule.target.http.uri",
       [](auto& s) { s.mutable_target()->mutable_http()->set_uri("http://h:99999/"); }},
      {"method", "schedule.target.http.method",
       [](auto& s) { s.mutable_target()->mutable_http()->set_method("GET"); }},
      {"header_crlf", "schedule.target.http.headers[X-A]",
       [](auto& s) {
         (*s.mutable_target()->mutable_http()->mutable_headers())["X-A"] = "a\r\nHost: evil";
       }},
      {"header_c1", "schedule.target.http.headers[X-A]",
       [](auto& s) {
         (*s.mutable_target()->mutable_http()->mutable_headers())["X-A"] = "a\xc2\x9b";
       }},
      {"header_nul", "schedule.target.http.headers[X-A]",
       [](auto& s) {
         (*s.mutable_target()->mutable_http()->mutable_headers())["X-A"] = std::string("a\0b", 3);
       }},
      {"header_reserved", "schedule.target.http.headers[Host]",
       [](auto& s) { (*s.mutable_target()->mutable_http()->mutable_headers())["Host"] = "x"; }},
      {"header_webhook", "schedule.target.http.headers[Webhook-Id]",
       [](auto& s) {
         (*s.mutable_target()->mutable_http()->mutable_headers())["Webhook-Id"] = "x";
       }},
      {"grpc_unix", "schedule.target.grpc.uri",
       [](auto& s) { s.mutable_target()->mutable_grpc()->set_uri("unix:/run/docker.sock"); }},
      {"grpc_port", "schedule.target.grpc.uri",
       [](auto& s) { s.mutable_target()->mutable_grpc()->set_uri("dns:///host"); }},
      {"n_negative", "schedule.event_count", [](auto& s) { s.set_event_count(-1); }},
      {"n_large", "schedule.event_count", [](auto& s) { s.set_event_count(100'000'001); }},
      {"priority", "schedule.priority", [](auto& s) { s.set_priority(10); }},
      {"priority_negative", "schedule.priority", [](auto& s) { s.set_priority(-1); }},
      {"timeout_short", "schedule.delivery_timeout",
       [](auto& s) { s.mutable_delivery_timeout()->set_nanos(1000); }},
      {"timeout_long", "schedule.delivery_timeout",
       [](auto& s) { s.mutable_delivery_timeout()->set_seconds(3601); }},
      {"timeout_signs", "schedule.delivery_timeout",
       [](auto& s) {
         s.mutable_delivery_timeout()->set_seconds(1);
         s.mutable_delivery_timeout()->set_nanos(-1);
       }},
      {"attempts", "schedule.retry_policy.max_attempts",
       [](auto& s) { s.mutable_retry_policy()->set_max_attempts(-3); }},
      {"multiplier", "schedule.retry_policy.multiplier",
       [](auto& s) { s.mutable_retry_policy()->set_multiplier(0.5); }},
      {"multiplier_nan", "schedule.retry_policy.multiplier",
       [](auto& s) { s.mutable_retry_policy()->set_multiplier(std::nan("")); }},
      {"backoff", "schedule.retry_policy.max_backoff",
       [](auto& s) {
         s.mutable_retry_policy()->mutable_min_backoff()->set_seconds(10);
         s.mutable_retry_policy()->mutable_max_backoff()->set_seconds(5);
       }},
      {"max_age", "schedule.retry_policy.max_age",
       [](auto& s) { s.mutable_retry_policy()->mutable_max_age()->set_seconds(31 * 86'400); }},
      {"content_type", "schedule.content_type",
       [](auto& s) { s.set_content_type("text/plain\r\nX: y"); }},
      {"display_name", "schedule.display_name",
       [](auto& s) { s.set_display_name(std::string(201, 'n')); }},
      {"display_name_escape", "schedule.display_name",
       [](auto& s) { s.set_display_name("a\x1b[2J"); }},
      {"display_name_c1", "schedule.display_name",
       [](auto& s) { s.set_display_name("a\xc2\x9b"); }},
      {"label_escape", "schedule.labels", [](auto& s) { (*s.mutable_labels())["a"] = "\x7f"; }},
      {"policy_form", "schedule.policy", [](auto& s) { s.set_policy("policies/p"); }},
      {"policy_kind", "schedule.policy",
       [](auto& s) { s.set_policy("tenants/default/schedules/p"); }},
      {"policy_tenant", "schedule.policy",
       [](auto& s) { s.set_policy("tenants/other/policies/p"); }},
      {"window_empty", "schedule.window.duration", [](auto& s) { s.mutable_window(); }},
      {"window_short", "schedule.window.duration",
       [](auto& s) { s.mutable_window()->mutable_duration()->set_nanos(999'999'999); }},
      {"window_long", "schedule.window.duration",
       [](auto& s) { s.mutable_window()->mutable_duration()->set_seconds(366 * 86'400 + 1); }},
      {"pacing", "schedule.window.pacing",
       [](auto& s) {
         s.mutable_window()->mutable_duration()->set_seconds(1);
         s.mutable_window()->set_pacing(static_cast<v1::Window::Pacing>(3));
       }},
      {"on_close", "schedule.window.on_close",
       [](auto& s) {
         s.mutable_window()->mutable_duration()->set_seconds(1);
         s.mutable_window()->set_on_close(static_cast<v1::Window::OnClose>(4));
       }},
      {"completion", "schedule.completion",
       [](auto& s) { s.set_completion(static_cast<v1::Completion>(3)); }},
      {"on_complete_empty", "schedule.on_complete", [](auto& s) { s.mutable_on_complete(); }},
      {"on_complete_uri", "schedule.on_complete.http.uri",
       [](auto& s) { s.mutable_on_complete()->mutable_http()->set_uri("ftp://h/"); }},
      {"on_complete_when", "schedule.on_complete_when",
       [](auto& s) {
         s.mutable_on_complete()->mutable_http()->set_uri("http://h/");
         s.set_on_complete_when(static_cast<v1::Schedule::OnCompleteWhen>(3));
       }},
      {"on_complete_when_alone", "schedule.on_complete_when",
       [](auto& s) { s.set_on_complete_when(v1::Schedule::ALWAYS); }},
      {"label", "schedule.labels[]", [](auto& s) { (*s.mutable_labels())[""] = "x"; }},
  };
}

std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const auto& [field, description] : FieldViolationsOf(status)) fields.push_back(field);
  return fields;
}

TEST(ScheduleValidation, CreateRefusesEachBadFieldByNameAndWritesNothing) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  for (const BadSchedule& bad : BadSchedules()) {
    v1::CreateScheduleRequest request = ValidSchedule("s");
    bad.change(*request.mutable_schedule());
    const auto answer = fixture.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.name << answer.status();
    EXPECT_EQ(FieldsOf(answer.status()), std::vector<std::string>{bad.field}) << bad.name;
    EXPECT_EQ(ErrorReason(answer.status()),
              bad.name == "impossible" ? "IMPOSSIBLE_EXPRESSION" : "INVALID_FIELD");
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleValidation, UpdateRefusesEachBadFieldByNameAndWritesNothing) {
  MasterWorld fixture;
  ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  const std::string before = fixture.Dump();
  for (const BadSchedule& bad : BadSchedules()) {
    v1::UpdateScheduleRequest request;
    *request.mutable_schedule() = ValidSchedule("s").schedule();
    request.mutable_schedule()->set_name("tenants/default/schedules/s");
    request.mutable_update_mask()->add_paths("*");
    bad.change(*request.mutable_schedule());
    const auto answer = fixture.Call(&ScheduleApi::UpdateSchedule, request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.name << answer.status();
    EXPECT_EQ(FieldsOf(answer.status()), std::vector<std::string>{bad.field}) << bad.name;
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleValidation, AllViolationsAreGathered) {
  MasterWorld fixture;
  v1::CreateScheduleRequest request = ValidSchedule("Upper");
  request.mutable_schedule()->set_cron("nonsense");
  request.mutable_schedule()->set_time_zone("Nowhere");
  request.mutable_schedule()->set_event_count(-5);
  request.set_request_id("with blank");
  const auto answer = fixture.Call(&ScheduleApi::CreateSchedule, request);
  EXPECT_EQ(FieldsOf(answer.status()),
            (std::vector<std::string>{"request_id", "schedule_id", "schedule.cron",
                                      "schedule.time_zone", "schedule.event_count"}));
}

TEST(ScheduleValidation, NamesOfTheWrongFormAreRefusedAndUnknownOnesNotFound) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::CreateScheduleRequest create = ValidSchedule("s");
  create.set_parent("projects/default");
  EXPECT_EQ(FieldsOf(fixture.Call(&ScheduleApi::CreateSchedule, create).status()),
            std::vector<std::string>{"parent"});
  v1::GetScheduleRequest get;
  for (const char* name : {"", "s", "tenants/default/schedules/", "tenants/default/schedules/UP",
                           "tenants/default/schedules/a/b", "tenants/default/events/s"}) {
    get.set_name(name);
    EXPECT_EQ(FieldsOf(fixture.Call(&ScheduleApi::GetSchedule, get).status()),
              std::vector<std::string>{"name"})
        << name;
  }
  get.set_name("tenants/default/schedules/none");
  EXPECT_TRUE(absl::IsNotFound(fixture.Call(&ScheduleApi::GetSchedule, get).status()));
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/none");
  const auto paused = fixture.Call(&ScheduleApi::PauseSchedule, pause);
  EXPECT_TRUE(absl::IsNotFound(paused.status()));
  EXPECT_EQ(ErrorMetadataValue(paused.status(), "resource"), "tenants/default/schedules/none");
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleValidation, AnUnknownFieldInTheMaskIsRefused) {
  MasterWorld fixture;
  ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  const std::string before = fixture.Dump();
  for (const char* path : {"colour", "target.smtp", "labels.key", "target.http.uri.host", ""}) {
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name("tenants/default/schedules/s");
    request.mutable_update_mask()->add_paths(path);
    EXPECT_EQ(FieldsOf(fixture.Call(&ScheduleApi::UpdateSchedule, request).status()),
              std::vector<std::string>{"update_mask"})
        << path;
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleValidation, AStaleEtagAndAWrongStateAreRefused) {
  MasterWorld fixture;
  ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  const std::string before = fixture.Dump();
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/s");
  update.mutable_schedule()->set_etag("\"0-0\"");
  update.mutable_schedule()->set_cron("0 * * * *");
  const auto updated = fixture.Call(&ScheduleApi::UpdateSchedule, update);
  EXPECT_EQ(updated.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(updated.status()), "ETAG_MISMATCH");
  v1::ResumeScheduleRequest resume;
  resume.set_name("tenants/default/schedules/s");
  const auto resumed = fixture.Call(&ScheduleApi::ResumeSchedule, resume);
  EXPECT_EQ(resumed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(resumed.status()), "WRONG_STATE");
  v1::TriggerScheduleRequest trigger;
  trigger.set_name("tenants/default/schedules/s");
  trigger.set_event_count(-1);
  EXPECT_EQ(FieldsOf(fixture.Call(&ScheduleApi::TriggerSchedule, trigger).status()),
            std::vector<std::string>{"event_count"});
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleValidation, ValidateOnlyAnswersAndWritesNothing) {
  MasterWorld fixture;
  const std::string before = fixture.Dump();
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.set_validate_only(true);
  request.set_request_id("r");
  const auto answer = fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->next_time().seconds(),
            absl::ToUnixSeconds(absl::FromCivil(absl::CivilYear(2027), absl::UTCTimeZone())));
  EXPECT_EQ(fixture.Dump(), before);
}

}  // namespace schedule_validation_test
}  // namespace escapement::master
