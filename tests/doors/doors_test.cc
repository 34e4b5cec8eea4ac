// Every unary RPC through both doors of a standalone process that requires credentials: gRPC, and
// REST made from the same descriptors. Status, error and answer must be the same. access_test.cc
// has the calls of others than the admin.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/rest/answer_writer.h"
#include "common/rest/gzip.h"
#include "common/rest/route_table.h"
#include "common/rpc/status_conversion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/rest_call.h"
#include "tests/doors/schema_check.h"
#include "tests/doors/secured_standalone.h"
#include "tests/fixtures/public_routes.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/http_get.h"

namespace escapement::doors {
namespace {

using integration::HttpAnswer;
using integration::HttpCall;
using nlohmann::json;
using testing::HasSubstr;

// '@' in a request stands for the door's own letter, so that each door has resources of its own.
// "$KEY" stands for the id of a key of its own in tenants/default.
struct Case {
  std::string method;
  std::string request;  // text format
  absl::StatusCode code = absl::StatusCode::kOk;
};

const std::vector<Case>& Cases() {
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
  constexpr absl::StatusCode kExists = absl::StatusCode::kAlreadyExists;
  constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;
  constexpr absl::StatusCode kState = absl::StatusCode::kFailedPrecondition;
  // In this order: a case may use what an earlier one has made.
  static const auto* const cases = new std::vector<Case>{
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
      {"PreviewSchedule", R"(cron: "0 3,6,9 * * *" time_zone: "Asia/Kolkata" count: 3
          from_time { seconds: 1800000000 })"},
      {"PreviewSchedule", R"(cron: "x")", kInvalid},
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
      {"GetPolicyUsage", R"(name: "tenants/default/policies/p@")"},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@" etag: "\"0\"")", kAborted},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@" validate_only: true)"},
      {"DeletePolicy", R"(name: "tenants/default/policies/p@")"},
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
      {"GetEvent", R"(name: "tenants/default/events/e@")"},
      {"ListEvents", R"(parent: "tenants/default" page_size: 1 order_by: "due_time desc"
          filter: "name = \"f@*\" AND target = http AND due_time > \"2030-01-01T00:00:00Z\"")"},
      {"ListEvents", R"(parent: "tenants/default" filter: "a = b" order_by: "size")", kInvalid},
      {"CancelEvent", R"(name: "tenants/default/events/e@")"},
      {"ListEvents", R"(parent: "tenants/default" filter: "name = e@ AND outcome = CANCELLED")"},
      {"CancelEvent", R"(name: "tenants/default/events/e@")", kState},
      {"CancelEvent", R"(name: "tenants/default/events/none")", kNotFound},
      {"ListRuns", R"(parent: "tenants/default/schedules/s@" page_size: 5
          filter: "state = SKIPPED" order_by: "nominal_time desc")"},
      {"ListRuns", R"(parent: "tenants/default/schedules/s@" filter: "colour = red")", kInvalid},
      {"GetRun", R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")", kNotFound},
      {"ListRunEvents", R"(parent: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")",
       kNotFound},
      {"CancelRun", R"(name: "tenants/default/schedules/s@/runs/20260101T000000-0-UTC")",
       kNotFound},
      {"CompleteTokens", R"(completions { token: "forged" outcome: SUCCEEDED })"},
      {"CompleteTokens", "", kInvalid},
      {"ReleaseTokens", R"(tokens: "forged")"},
      {"ExtendTokens", R"(tokens: "forged" hold { seconds: 5 })"},
      {"ExtendTokens", R"(tokens: "forged" hold { seconds: -5 })", kInvalid},
      {"GetClock", ""},
      {"ConfirmClock", ""},
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
  };
  return *cases;
}

// Removes what differs from call to call.
void RemoveVolatile(json& value) {
  static const auto* const volatile_fields = new std::set<std::string>{
      "uid",        "completeTime", "nextTime",      "anchorTime",  "etag",       "createTime",
      "updateTime", "storeTime",    "disagreement",  "nominalTime", "occurrence", "eventId",
      "heldFor",    "name",         "nextPageToken", "schedules",   "policies",   "tenants",
      "keys",       "auditEntries", "secret",        "revokeTime",  "lastUseTime"};
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      if (volatile_fields->contains(it.key())) {
        it = value.erase(it);
      } else {
        RemoveVolatile(*it);
        ++it;
      }
    }
  } else if (value.is_array()) {
    for (json& element : value) RemoveVolatile(element);
  }
}

// Schedules and the like are named "sg" through one door and "sr" through the other.
std::string WithoutLetter(std::string text, const std::string& letter) {
  for (const char* id : {"s", "t", "p", "q", "e", "f"}) {
    text = absl::StrReplaceAll(text, {{absl::StrCat("/", id, letter), absl::StrCat("/", id, "@")}});
  }
  return text;
}

// True if the request, or the resource in it, has an etag.
bool TakesEtag(const google::protobuf::Descriptor& request) {
  if (request.FindFieldByName("etag") != nullptr) return true;
  if (request.FindFieldByName("update_mask") == nullptr) return false;
  return request.field(0)->message_type()->FindFieldByName("etag") != nullptr;
}

class DoorsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("doors", {"--cors_origins=https://ops.example"});
    const absl::Status status = standalone_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  static void TearDownTestSuite() { delete standalone_; }

  // How the answer differs from what the OpenAPI document promises; "" if it does not.
  static std::string DocumentMismatch(const rest::RestRoute& route, const HttpAnswer& answer) {
    static const auto* const document = new json(json::parse(Http({.path = "/openapi.json"}).body));
    const bool ok = answer.status == 200;
    if (!ok)
      return SchemaMismatch(*document, document->at("components").at("schemas").at("Error"),
                            json::parse(answer.body));
    for (const auto& [path, item] : document->at("paths").items()) {
      for (const auto& [verb, operation] : item.items()) {
        if (!absl::EqualsIgnoreCase(operation.value("operationId", ""), route.method->name()))
          continue;
        return SchemaMismatch(
            *document,
            operation.at("responses").at("200").at("content").at("application/json").at("schema"),
            json::parse(answer.body));
      }
    }
    return absl::StrCat("the document has no ", route.method->name());
  }

  static HttpAnswer Http(const HttpCall& call) {
    return standalone_->Http(call, standalone_->admin());
  }
  // Of a new key in tenants/default.
  static std::string KeyId() {
    const std::string name = standalone_->NewKey("tenants/default", v1::Access::VIEWER).name();
    return name.substr(name.rfind('/') + 1);
  }
  static json Json(const HttpAnswer& answer) { return json::parse(answer.body, nullptr, false); }

  static SecuredStandalone* standalone_;
};
SecuredStandalone* DoorsTest::standalone_ = nullptr;

TEST_F(DoorsTest, EachUnaryRpcHasARouteAndACase) {
  std::set<std::string> with_case;
  std::set<std::string> with_stale_etag;
  for (const Case& c : Cases()) {
    with_case.insert(c.method);
    if (c.code == absl::StatusCode::kAborted) with_stale_etag.insert(c.method);
  }
  for (const std::string& name : fixtures::PublicServices()) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      if (method->client_streaming()) continue;
      EXPECT_NE(SecuredStandalone::RouteOf(method->name()), nullptr) << method->full_name();
      EXPECT_TRUE(with_case.contains(method->name())) << method->full_name();
      if (TakesEtag(*method->input_type())) {
        EXPECT_TRUE(with_stale_etag.contains(method->name())) << method->full_name();
      }
    }
  }
}

TEST_F(DoorsTest, BothDoorsAnswerTheSame) {
  const std::string grpc_key = KeyId();
  const std::string rest_key = KeyId();
  for (const Case& c : Cases()) {
    SCOPED_TRACE(absl::StrCat(c.method, " ", c.request));
    const rest::RestRoute* route = SecuredStandalone::RouteOf(c.method);
    ASSERT_NE(route, nullptr);
    const auto request = SecuredStandalone::NewMessage(route->method->input_type());

    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrReplaceAll(c.request, {{"@", "g"}, {"$KEY", grpc_key}}), request.get()));
    const fixtures::RawAnswer by_grpc =
        standalone_->Grpc(route->grpc_path, {request->SerializeAsString()}, standalone_->admin());
    const absl::Status status = FromGrpcStatus(by_grpc.status);
    EXPECT_EQ(status.code(), c.code) << status;

    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrReplaceAll(c.request, {{"@", "r"}, {"$KEY", rest_key}}), request.get()));
    const HttpAnswer by_rest = Http(RestCallOf(*route, *request));
    EXPECT_EQ(by_rest.status, rest::HttpStatusOf(c.code)) << by_rest.body;
    EXPECT_EQ(by_rest.Header("content-type"), "application/json");
    json rest = json::parse(WithoutLetter(by_rest.body, "r"), nullptr, false);
    ASSERT_TRUE(rest.is_object()) << by_rest.body;

    EXPECT_EQ(DocumentMismatch(*route, by_rest), "");
    if (!status.ok()) {
      json wanted = json::parse(WithoutLetter(rest::ErrorAnswer(status).body, "g"));
      EXPECT_EQ(rest, wanted);
      continue;
    }
    const auto answer = SecuredStandalone::NewMessage(route->method->output_type());
    ASSERT_EQ(by_grpc.messages.size(), 1u);
    ASSERT_TRUE(answer->ParseFromString(by_grpc.messages[0]));
    json wanted = json::parse(WithoutLetter(*rest::AnswerJson(*answer), "g"));
    RemoveVolatile(wanted);
    RemoveVolatile(rest);
    EXPECT_EQ(rest, wanted);
  }
}

TEST_F(DoorsTest, TheDocumentAndItsPageAreServed) {
  const HttpAnswer document = Http({.path = "/openapi.json"});
  EXPECT_EQ(document.status, 200);
  EXPECT_EQ(Json(document).value("openapi", ""), "3.1.0");
  const HttpAnswer page = Http({.path = "/docs"});
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.Header("content-type"), HasSubstr("text/html"));
  EXPECT_THAT(page.Header("content-security-policy"), HasSubstr("default-src 'none'"));
}

constexpr const char* kSchedules = "/v1/tenants/default/schedules";
constexpr const char* kYearly =
    R"({"cron":"0 3 1 1 *","target":{"http":{"uri":"http://127.0.0.1:9/"}}})";

TEST_F(DoorsTest, EtagsAndIfMatchGoTogether) {
  const HttpAnswer made = Http(
      {.method = "POST", .path = absl::StrCat(kSchedules, "?scheduleId=etag"), .body = kYearly});
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string etag = made.Header("etag");
  EXPECT_EQ(etag, Json(made)["etag"]);
  const std::string path = absl::StrCat(kSchedules, "/etag");
  EXPECT_EQ(Http({.path = path, .headers = {{"If-None-Match", etag}}}).status, 304);
  const std::string patch = path + "?updateMask=displayName";
  const std::string body = R"({"displayName":"new"})";
  EXPECT_EQ(Http({.method = "PATCH", .path = patch, .headers = {{"If-Match", etag}}, .body = body})
                .status,
            200);
  const HttpAnswer stale =
      Http({.method = "PATCH", .path = patch, .headers = {{"If-Match", etag}}, .body = body});
  EXPECT_EQ(stale.status, 412);
  EXPECT_EQ(Json(stale)["error"]["status"], "ABORTED");
  EXPECT_EQ(Http({.path = path, .headers = {{"If-None-Match", etag}}}).status, 200);
  EXPECT_EQ(Http({.method = "DELETE", .path = path, .headers = {{"If-Match", "*"}}}).status, 200);
}

TEST_F(DoorsTest, IdempotencyKeyIsTheRequestId) {
  const HttpCall call{.method = "POST",
                      .path = kSchedules,
                      .headers = {{"Idempotency-Key", "key-1"}},
                      .body = kYearly};
  const HttpAnswer first = Http(call);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(Http(call).body, first.body);
  HttpCall other = call;
  other.path = absl::StrCat(kSchedules, "?requestId=another");
  EXPECT_EQ(Http(other).status, 400);
}

TEST_F(DoorsTest, RefusesWhatIsNotTheApi) {
  const HttpAnswer unknown_field =
      Http({.method = "POST", .path = kSchedules, .body = R"({"colour":"red"})"});
  EXPECT_EQ(unknown_field.status, 400);
  EXPECT_THAT(unknown_field.body, HasSubstr("colour"));
  EXPECT_EQ(Http({.method = "POST", .path = kSchedules, .body = "{"}).status, 400);
  EXPECT_EQ(Http({.path = "/v1/nothing"}).status, 404);
  EXPECT_EQ(Http({.path = absl::StrCat(kSchedules, "?colour=red")}).status, 400);
  EXPECT_EQ(Http({.path = absl::StrCat(kSchedules, "?pageSize=ten")}).status, 400);
  EXPECT_EQ(Http({.path = absl::StrCat(kSchedules, "/%zz")}).status, 400);
  const HttpAnswer method = Http({.method = "PUT", .path = kSchedules});
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.Header("allow"), "GET, POST");
  const HttpAnswer type = Http({.method = "POST",
                                .path = kSchedules,
                                .headers = {{"Content-Type", "text/xml"}},
                                .body = "<a/>"});
  EXPECT_EQ(type.status, 415);
  const HttpAnswer large =
      Http({.method = "POST", .path = kSchedules, .body = std::string((4 << 20) + 1, ' ')});
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(Json(large)["error"]["code"], 413);
  for (const HttpAnswer& answer : {unknown_field, method, type, large}) {
    EXPECT_EQ(answer.Header("content-type"), "application/json");
    EXPECT_TRUE(Json(answer)["error"]["message"].is_string()) << answer.body;
  }
}

TEST_F(DoorsTest, BodiesMayBePackedBothWays) {
  const HttpAnswer made = Http({.method = "POST",
                                .path = absl::StrCat(kSchedules, "?scheduleId=packed"),
                                .headers = {{"Content-Encoding", "gzip"}},
                                .body = rest::Gzipped(kYearly)});
  EXPECT_EQ(made.status, 200) << made.body;
  const HttpAnswer bomb = Http({.method = "POST",
                                .path = kSchedules,
                                .headers = {{"Content-Encoding", "gzip"}},
                                .body = rest::Gzipped(std::string(32 << 20, ' '))});
  EXPECT_EQ(bomb.status, 413);
  const HttpAnswer packed =
      Http({.path = absl::StrCat(kSchedules, "/packed"), .headers = {{"Accept-Encoding", "gzip"}}});
  // Small answers stay as they are.
  EXPECT_EQ(packed.Header("content-encoding"), "");
  const HttpAnswer list = Http({.method = "POST",
                                .path = "/v1/schedules:preview",
                                .headers = {{"Accept-Encoding", "br, gzip;q=0.5"}},
                                .body = R"({"cron":"* * * * *","count":100})"});
  EXPECT_EQ(list.Header("content-encoding"), "gzip");
  auto plain = rest::Gunzipped(list.body, 1 << 20);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(json::parse(*plain)["occurrences"].size(), 100u);
}

TEST_F(DoorsTest, PagesOfListedOriginsMayCall) {
  const HttpAnswer other =
      Http({.path = kSchedules, .headers = {{"Origin", "https://evil.example"}}});
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(other.Header("access-control-allow-origin"), "");
  const HttpAnswer listed =
      Http({.path = kSchedules, .headers = {{"Origin", "https://ops.example"}}});
  EXPECT_EQ(listed.Header("access-control-allow-origin"), "https://ops.example");
  EXPECT_EQ(listed.Header("vary"), "Origin");
  const HttpAnswer preflight = Http(
      {.method = "OPTIONS",
       .path = kSchedules,
       .headers = {{"Origin", "https://ops.example"}, {"Access-Control-Request-Method", "PATCH"}}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Header("access-control-allow-origin"), "https://ops.example");
  EXPECT_THAT(preflight.Header("access-control-allow-methods"), HasSubstr("PATCH"));
}

}  // namespace
}  // namespace escapement::doors
