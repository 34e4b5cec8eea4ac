// Lists, repeated requests and refused requests of a secured standalone process with two tenants.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/rpc/method_access.h"
#include "common/status/errors.h"
#include "escapement/v1/audit_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doors/access_fixture.h"
#include "tests/doors/access_requests.h"
#include "tests/doors/door_cases.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::doors {
namespace access_effects_test {

using google::protobuf::MethodDescriptor;
using integration::HttpAnswer;
using testing::HasSubstr;
using testing::Not;

TEST_F(AccessTest, ListsShowTheCallersTenantOnly) {
  for (const MethodDescriptor* method : Lists()) {
    for (const auto& [own, other] : {std::pair{"a", "b"}, std::pair{"b", "a"}}) {
      auto request = ListRequest(*method, own);
      if (method->name() == "ListAuditEntries") {
        // Refused calls show what the tenant's own callers have asked for.
        static_cast<v1::ListAuditEntriesRequest&>(*request).set_filter("result = OK");
      }
      const std::string all = Listed(*method, *request, Caller(absl::StrCat("ADMIN of ", own)));
      EXPECT_THAT(all, HasSubstr(absl::StrCat("tenants/", own))) << method->name();
      EXPECT_THAT(all, Not(HasSubstr(absl::StrCat("tenants/", other)))) << method->name();
    }
  }
}

TEST_F(AccessTest, PageTokensBelongToOneTenant) {
  for (const MethodDescriptor* method : Lists()) {
    SCOPED_TRACE(method->name());
    // ListTenants has a second page for callers of all tenants only.
    const CallerCase& first =
        method->name() == "ListTenants" ? Caller("admin of all") : Caller("ADMIN of a");
    const auto request = ListRequest(*method, "a");
    const auto* size = method->input_type()->FindFieldByName("page_size");
    request->GetReflection()->SetInt32(request.get(), size, 1);
    const fixtures::RawAnswer answer =
        standalone_->Grpc(GrpcPath(*method), {request->SerializeAsString()}, first.authorization);
    ASSERT_EQ(answer.messages.size(), 1u) << answer.status.error_message();
    const auto page = SecuredStandalone::NewMessage(method->output_type());
    page->ParseFromString(answer.messages[0]);
    const std::string token = page->GetReflection()->GetString(
        *page, method->output_type()->FindFieldByName("next_page_token"));
    ASSERT_FALSE(token.empty()) << page->DebugString();
    const auto stolen = ListRequest(*method, "b");
    stolen->GetReflection()->SetString(stolen.get(),
                                       method->input_type()->FindFieldByName("page_token"), token);
    for (const char* thief : {"ADMIN of b", "admin of all"}) {
      if (method->name() == "ListTenants" && thief == first.name) continue;
      const Answers answers = Ask(*method, *stolen, Caller(thief));
      EXPECT_EQ(answers.status.code(), absl::StatusCode::kInvalidArgument) << answers.status;
      EXPECT_THAT(answers.body, HasSubstr("page_token"));
    }
  }
}

TEST_F(AccessTest, OverrideOnATokenStreamHasTheRulesOfItsUnaryCall) {
  const auto ask = [](const std::string& caller) {
    const MethodDescriptor& stream = *Method("StreamTokens");
    const std::string text = absl::StrCat(R"(override { name: "tenants/TENANT/policies/p"
        request_id: "by-stream" override { max_concurrent: 1 reason: "R" expire_time { seconds: )",
                                          SoonSeconds(), "} } }");
    return Ask(stream, *ReadRequestText(stream, "a", text), Caller(caller)).status;
  };
  EXPECT_EQ(ErrorReason(ask("VIEWER of a")), "ROLE_TOO_LOW");
  const absl::Status hidden = ask("OPERATOR of b");
  EXPECT_EQ(hidden.code(), absl::StatusCode::kNotFound) << hidden;
  EXPECT_EQ(ErrorMetadataValue(hidden, "resource"), "tenants/a");
  const absl::Status done = ask("OPERATOR of a");
  EXPECT_TRUE(done.ok()) << done;
  const auto policy =
      Do<v1::ThrottlePolicy>("GetPolicy", "a", R"(name: "tenants/TENANT/policies/p")");
  EXPECT_EQ(policy.overrides_size(), 1) << policy.DebugString();
  v1::ListAuditEntriesRequest list;
  list.set_parent("tenants/a");
  list.set_filter("method = OverridePolicy AND result = OK");
  const auto entries = standalone_->Call<v1::ListAuditEntriesResponse>("ListAuditEntries", list);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->audit_entries_size(), 1);
  EXPECT_EQ(entries->audit_entries(0).request_id(), "by-stream");
  EXPECT_EQ(entries->audit_entries(0).role(), v1::Access::OPERATOR);
}

// Last, since it changes the tenants' things. DeleteTenant waits until the tenants have been
// suspended for long enough; so they are suspended first.
TEST_F(AccessTest, RepeatedRequestIdsHaveOneEffectInEachTenant) {
  for (const char* tenant : {"a", "b"}) {
    const std::string gone = absl::StrCat("gone-", tenant);
    MakeTenant(gone);
    Do<v1::Tenant>("UpdateTenant", gone, R"(tenant { name: "tenants/TENANT" state: SUSPENDED })");
  }
  for (const MethodDescriptor* method : PublicMethods()) {
    if (method->input_type()->FindFieldByName("request_id") == nullptr) continue;
    if (method->name() == "CreateCell") continue;  // needs the store of another cell
    ASSERT_TRUE(RepeatedRequests().contains(method->name())) << method->full_name();
  }
  // In an order in which each finds what it needs.
  for (const char* name :
       {"CreateSchedule",     "UpdateSchedule",   "PauseSchedule",      "ResumeSchedule",
        "TriggerSchedule",    "BackfillSchedule", "CreatePolicy",       "UpdatePolicy",
        "PausePolicy",        "ResumePolicy",     "OverridePolicy",     "ClearOverride",
        "CreateCalendar",     "UpdateCalendar",   "DeleteCalendar",     "CreateSubscription",
        "UpdateSubscription", "TestSubscription", "DeleteSubscription", "CreateEvent",
        "BatchCreateEvents",  "UpsertEvent",      "UpdateEvent",        "CancelEvent",
        "BatchCancelEvents",  "CancelRun",        "CancelOperation",    "RedriveDeadLetter",
        "RedriveDeadLetters", "RedriveRun",       "PurgeDeadLetters",   "DeleteSchedule",
        "DeletePolicy",       "CreateTenant",     "UpdateTenant",       "DeleteTenant",
        "UpdateCell"}) {
    const MethodDescriptor& method = *Method(name);
    const bool of_all = MethodAccess::Of(method)->access().all_tenants();
    const rest::RestRoute& route = *SecuredStandalone::RouteOf(name);
    for (const std::string tenant : {"a", "b"}) {
      SCOPED_TRACE(absl::StrCat(name, " in ", tenant));
      const CallerCase& caller =
          of_all ? Caller("admin of all") : Caller(absl::StrCat("EDITOR of ", tenant));
      const auto with_ids = [&](const std::string& text) {
        return ReadRequestText(method, tenant,
                               absl::StrReplaceAll(text, {{"ID", name},
                                                          {"RUN", (*runs_)[tenant]},
                                                          {"LETTER", (*letters_)[tenant]},
                                                          {"OPERATION", (*operations_)[tenant]}}));
      };
      const auto request = with_ids(RepeatedRequests().at(name).request);
      const auto call = [&] {
        return standalone_->Grpc(GrpcPath(method), {request->SerializeAsString()},
                                 caller.authorization);
      };
      fixtures::RawAnswer first = call();
      if (std::string(name) == "DeleteTenant") {
        const absl::Time deadline = absl::Now() + absl::Seconds(20);
        while (!first.status.ok() && absl::Now() < deadline) first = call();
      }
      ASSERT_TRUE(first.status.ok()) << first.status.error_message();
      EXPECT_EQ(call().messages, first.messages);
      const HttpAnswer by_rest =
          standalone_->Http(RestCallOf(route, *request), caller.authorization);
      EXPECT_EQ(by_rest.status, 200) << by_rest.body;
      const Answers reused = Ask(method, *with_ids(RepeatedRequests().at(name).other), caller);
      EXPECT_EQ(ErrorReason(reused.status), "REQUEST_ID_REUSED") << reused.status;

      v1::ListAuditEntriesRequest list;
      list.set_parent(of_all ? "tenants/-" : "tenants/" + tenant);
      list.set_filter(absl::StrCat("method = ", name, " AND result = OK"));
      const auto entries =
          standalone_->Call<v1::ListAuditEntriesResponse>("ListAuditEntries", list);
      ASSERT_TRUE(entries.ok()) << entries.status();
      int effects = 0;
      for (const v1::AuditEntry& entry : entries->audit_entries())
        effects += entry.request_id() == MethodAccess::RequestIdOf(*request) ? 1 : 0;
      EXPECT_EQ(effects, 1);
    }
  }
}

// gRPC aborts a process that sends such metadata.
TEST_F(AccessTest, HeadersThatGrpcCannotCarryAreRefusedOrDropped) {
  const integration::HttpCall call{.path = "/v1/tenants/a/schedules"};
  for (const char* bad : {"Bearer\tesc_0", "Bearer \xff", "\x80"}) {
    const HttpAnswer answer = standalone_->Http(call, bad);
    EXPECT_EQ(answer.status, 401) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("CREDENTIAL_MALFORMED"));
    integration::HttpCall traced = call;
    traced.headers = {{"x-request-id", bad}, {"traceparent", bad}, {"tracestate", bad}};
    EXPECT_EQ(standalone_->Http(traced, standalone_->admin()).status, 200);
    integration::HttpCall lines{.method = "POST",
                                .path = "/v1/tenants/a/events:ingest",
                                .headers = traced.headers,
                                .body = "{}\n"};
    EXPECT_EQ(standalone_->Http(lines, bad).status, 401);
    EXPECT_EQ(standalone_->Http(lines, standalone_->admin()).status, 200);
  }
}

TEST_F(AccessTest, SeveralCredentialsAreRefused) {
  integration::HttpCall call{.path = "/v1/tenants/a/schedules"};
  call.headers = {{"Authorization", Caller("unknown key").authorization}};
  EXPECT_EQ(standalone_->Http(call, standalone_->admin()).status, 401);
  call.headers = {{"Authorization", standalone_->admin()}};
  EXPECT_EQ(standalone_->Http(call, standalone_->admin()).status, 401);
  EXPECT_EQ(standalone_->Http(call, "").status, 200);
}

TEST_F(AccessTest, SuspendedTenantIsReadOnlyOnBothDoors) {
  MakeTenant("quiet");
  Do<v1::Tenant>("UpdateTenant", "quiet", R"(tenant { name: "tenants/TENANT" state: SUSPENDED })");
  for (const MethodDescriptor* method : PublicMethods()) {
    const Probe& probe = Probes().at(method->name());
    if (!absl::StrContains(probe.request, "TENANT")) continue;
    const v1::Access access = method->options().GetExtension(v1::access);
    const bool refused =
        access.audited() && (access.role() < v1::Access::ADMIN || method->name() == "CreateKey");
    const Answers answers =
        Ask(*method, *ReadRequestText(*method, "quiet", probe.request), Caller("admin of all"));
    EXPECT_EQ(answers.status.code(), refused ? absl::StatusCode::kFailedPrecondition : probe.code)
        << method->name() << answers.status;
    if (refused && method->name() != "Ingest") {
      EXPECT_EQ(ErrorReason(answers.status), "TENANT_SUSPENDED");
    }
  }
}

TEST_F(AccessTest, QuotasAreAnsweredTheSameOnBothDoors) {
  MakeTenant("small");
  Do<v1::Tenant>("UpdateTenant", "small", R"(tenant { name: "tenants/TENANT"
      quotas { max_payload_bytes: 1 max_events_per_run: 2 } })");
  const auto ask = [&](const std::string& method, const std::string& request) {
    const absl::Status status =
        Ask(*Method(method), *ReadRequestText(*Method(method), "small", request),
            Caller("admin of all"))
            .status;
    EXPECT_EQ(ErrorReason(status), "QUOTA_EXCEEDED") << method << status;
    EXPECT_TRUE(RetryDelayOf(status).has_value());
    return ErrorMetadataValue(status, "quota");
  };
  EXPECT_EQ(ask("CreateEvent", R"(parent: "tenants/TENANT" event { payload: "xx" })"),
            "max_payload_bytes");
  EXPECT_EQ(ask("UpsertEvent", R"(event { name: "tenants/TENANT/events/e" payload: "xx" })"),
            "max_payload_bytes");
  EXPECT_EQ(ask("UpdateEvent", R"(event { name: "tenants/TENANT/events/e" payload: "xx" })"),
            "max_payload_bytes");
  EXPECT_EQ(
      ask("BatchCreateEvents", R"(parent: "tenants/TENANT" requests { event { payload: "xx" } })"),
      "max_payload_bytes");
  EXPECT_EQ(ask("CreateSchedule", R"(parent: "tenants/TENANT" schedule { event_count: 3 })"),
            "max_events_per_run");
  EXPECT_EQ(
      ask("UpdateSchedule", R"(schedule { name: "tenants/TENANT/schedules/s" event_count: 3 })"),
      "max_events_per_run");
  EXPECT_EQ(ask("BatchCreateSchedules", R"(parent: "tenants/TENANT" requests { schedule { } }
                requests { schedule { event_count: 3 } })"),
            "max_events_per_run");
  EXPECT_EQ(ask("BatchUpdateSchedules", R"(parent: "tenants/TENANT" requests { schedule {
                name: "tenants/TENANT/schedules/s" payload: "xx" } })"),
            "max_payload_bytes");
  EXPECT_EQ(ask("TriggerSchedule", R"(name: "tenants/TENANT/schedules/s" event_count: 3)"),
            "max_events_per_run");
}

TEST_F(AccessTest, FieldsThatDoNotExistAreRefusedByEachRoute) {
  const CallerCase& admin = Caller("admin of all");
  for (const rest::RestRoute& route : fixtures::PublicRoutes().routes()) {
    SCOPED_TRACE(route.method->name());
    const auto request =
        ReadRequestText(*route.method, "a", Probes().at(route.method->name()).request);
    integration::HttpCall call = RestCallOf(route, *request);
    if (route.body.empty()) {
      absl::StrAppend(&call.path, absl::StrContains(call.path, '?') ? "&" : "?", "colour=red");
    } else {
      call.body = R"({"colour":"red"})";
    }
    const HttpAnswer answer = standalone_->Http(call, admin.authorization);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("colour"));
    // Without credentials not even this is said.
    EXPECT_EQ(standalone_->Http(call, "").status, 401);
    EXPECT_EQ(standalone_->Http(call, Caller("revoked key").authorization).status, 401);
  }
}

TEST_F(AccessTest, BodiesThatAreTooLargeAreRefusedByEachRpc) {
  const std::string large((12 << 20) + 1, ' ');
  const std::string message((16 << 20) + 1, ' ');
  for (const MethodDescriptor* method : PublicMethods()) {
    SCOPED_TRACE(method->name());
    if (method->client_streaming() || method->server_streaming()) continue;
    const rest::RestRoute& route = *SecuredStandalone::RouteOf(method->name());
    const auto request = ReadRequestText(*method, "a", Probes().at(method->name()).request);
    integration::HttpCall call = RestCallOf(route, *request);
    if (route.body.empty()) continue;
    call.body = large;
    const HttpAnswer answer = standalone_->Http(call, standalone_->admin());
    EXPECT_EQ(answer.status, 413) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("REQUEST_TOO_LARGE"));
  }
  for (const char* name : {"CreateSchedule", "ReleaseTokens", "CreateKey", "Ingest"}) {
    const fixtures::RawAnswer answer =
        standalone_->Grpc(GrpcPath(*Method(name)), {message}, standalone_->admin());
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << name << answer.status.error_message();
  }
}

}  // namespace access_effects_test
}  // namespace escapement::doors
