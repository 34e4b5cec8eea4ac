// Every unary RPC through both doors of a standalone process that requires credentials: gRPC, and
// REST made from the same descriptors. Status, error and answer must be the same. access_test.cc
// has the calls of others than the admin.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/rest/json_bytes.h"
#include "common/rest/request_reader.h"
#include "common/rest/route_table.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/door_cases.h"
#include "tests/doors/secured_standalone.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/probes.h"

namespace escapement::doors {
namespace doors_test {

using integration::HttpAnswer;
using integration::HttpCall;
using nlohmann::json;
using testing::HasSubstr;

// Removes what differs from call to call.
void RemoveVolatile(json& value) {
  static const auto* const volatile_fields = new std::set<std::string>{
      "uid",           "completeTime", "nextTime",      "anchorTime",   "etag",
      "createTime",    "updateTime",   "storeTime",     "disagreement", "nominalTime",
      "occurrence",    "eventId",      "heldFor",       "name",         "nextPageToken",
      "schedules",     "policies",     "tenants",       "keys",         "auditEntries",
      "secret",        "revokeTime",   "lastUseTime",   "filter",       "operations",
      "run",           "partition",    "emittedToTime", "startTime",    "calendars",
      "subscriptions", "checkTime",    "lastEventTime"};
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      const bool notice =
          it->is_string() && absl::StrContains(it->get<std::string>(), "/events/notice-");
      if (notice || volatile_fields->contains(it.key())) {
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
  for (const char* id : {"s", "t", "p", "q", "e", "f", "u", "k", "l", "m"}) {
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
  // The id of a new key in tenants/default.
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
  for (const DoorCase& c : DoorCases()) {
    with_case.insert(c.method);
    if (c.code == absl::StatusCode::kAborted) with_stale_etag.insert(c.method);
  }
  for (const std::string& name : fixtures::PublicServices()) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      if (method->client_streaming() || method->server_streaming()) continue;
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
  for (const DoorCase& c : DoorCases()) {
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
    json wanted = json::parse(
        WithoutLetter(*rest::BytesToJson(*answer->GetDescriptor(), by_grpc.messages[0]), "g"));
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
  const HttpCall create{
      .method = "POST", .path = absl::StrCat(kSchedules, "?scheduleId=etag"), .body = kYearly};
  const HttpAnswer made = Http(create);
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string etag = Json(made)["etag"];
  const std::string path = absl::StrCat(kSchedules, "/etag");
  const std::string validator = Http({.path = path}).Header("etag");
  EXPECT_EQ(Http({.path = path, .headers = {{"If-None-Match", validator}}}).status, 304);
  const std::string patch = path + "?updateMask=displayName";
  const auto change = [&](const std::string& if_match, const std::string& name) {
    return Http({.method = "PATCH",
                 .path = patch,
                 .headers = {{"If-Match", if_match}},
                 .body = absl::StrCat("{\"displayName\":\"", name, "\"}")});
  };
  EXPECT_EQ(change(validator, "a").status, 200);
  const HttpAnswer stale = change(validator, "b");
  EXPECT_EQ(stale.status, 412);
  EXPECT_EQ(Json(stale)["error"]["status"], "ABORTED");
  EXPECT_EQ(change(etag, "b").status, 412);
  EXPECT_EQ(Http({.path = path, .headers = {{"If-None-Match", validator}}}).status, 200);
  const std::string newer = Json(Http({.path = path}))["etag"];
  EXPECT_EQ(change(absl::StrCat("\"0-0\", ", newer), "c").status, 200) << "a list has the etag";

  EXPECT_EQ(Http({.method = "DELETE", .path = path, .headers = {{"If-Match", "*"}}}).status, 200);
  const HttpAnswer again = Http(create);
  ASSERT_EQ(again.status, 200);
  EXPECT_NE(Json(again)["etag"], etag) << "it is another schedule";
  EXPECT_EQ(Http({.path = path, .headers = {{"If-None-Match", validator}}}).status, 200);
  EXPECT_EQ(change(etag, "d").status, 412);
}

// A validator covers all that is shown: here the counts of a schedule, which no change has written.
TEST_F(DoorsTest, ConditionalGetSeesWhatChangesByItself) {
  ASSERT_EQ(Http({.method = "POST",
                  .path = absl::StrCat(kSchedules, "?scheduleId=counted"),
                  .body = R"({"cron":"0 3 1 1 *","retryPolicy":{"maxAttempts":1},)"
                          R"("target":{"http":{"uri":"http://127.0.0.1:10/"}}})"})
                .status,
            200);
  const std::string path = absl::StrCat(kSchedules, "/counted");
  const HttpAnswer before = Http({.path = path});
  ASSERT_EQ(Http({.method = "POST", .path = path + ":trigger", .body = "{}"}).status, 200);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  HttpAnswer after;
  do {
    after = Http({.path = path, .headers = {{"If-None-Match", before.Header("etag")}}});
  } while (after.status == 304 && absl::Now() < deadline);
  EXPECT_EQ(after.status, 200);
  EXPECT_EQ(Json(after)["etag"], Json(before)["etag"]);
  EXPECT_EQ(Json(after)["failedCount"], "1");
}

TEST_F(DoorsTest, CodingsAreNegotiated) {
  const HttpAnswer unknown = Http({.method = "POST",
                                   .path = kSchedules,
                                   .headers = {{"Content-Encoding", "br"}},
                                   .body = kYearly});
  EXPECT_EQ(unknown.status, 415);
  EXPECT_EQ(unknown.Header("accept-encoding"), "gzip");
  const HttpAnswer plain =
      Http({.path = kSchedules, .headers = {{"Accept-Encoding", "gzip;q=0.0"}}});
  EXPECT_EQ(plain.Header("content-encoding"), "");
  EXPECT_THAT(plain.Header("vary"), HasSubstr("Accept-Encoding"));
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
      Http({.method = "POST", .path = kSchedules, .body = std::string((12 << 20) + 1, ' ')});
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

// 8 MiB of payloads are 11 MB of base64.
TEST_F(DoorsTest, BatchesOfEventsHaveTheirDocumentedSize) {
  const auto batch = [](size_t events) {
    json requests = json::array();
    for (size_t i = 0; i < events; ++i) {
      requests.push_back({{"event",
                           {{"dueTime", "2090-01-01T00:00:00Z"},
                            {"target", {{"http", {{"uri", "http://127.0.0.1:9/"}}}}},
                            {"payload", absl::Base64Escape(std::string(262'144, 'x'))}}}});
    }
    return Http({.method = "POST",
                 .path = "/v1/tenants/default/events:batchCreate",
                 .body = json({{"requests", requests}, {"validateOnly", true}}).dump()});
  };
  HttpAnswer answer = batch(31);
  EXPECT_EQ(answer.status, 200) << answer.body;
  answer = batch(33);
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("bytes together"));
}

TEST_F(DoorsTest, PassedDeadlineHasAReason) {
  // gRPC counts deadlines in whole milliseconds, in which a call may end.
  HttpAnswer answer;
  for (int tries = 0; tries < 1000 && answer.status != 504; ++tries)
    answer = Http({.path = kSchedules, .headers = {{"Request-Timeout", "0.000001"}}});
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(Json(answer)["error"]["details"][0]["reason"], "DEADLINE_EXCEEDED") << answer.body;
}

TEST_F(DoorsTest, OnlyWhatJsonAllowsIsRead) {
  for (const char* body :
       {R"({"dueTime":"2099-1-01T00:00:00Z"})", R"({"deliveryTimeout":"+5s"})",
        R"({"deliveryTimeout":" 3.5s"})", R"({"dueTime":"2099-01-01T00:00:00.1234567890Z"})",
        "{'contentType':'a/b'}", "{/**/}", R"({"priority":1,})", R"({"priority":1,"priority":2})",
        R"({"payload":"aGk=","payloadText":"hi"})"}) {
    const HttpAnswer answer =
        Http({.method = "POST", .path = "/v1/tenants/default/events", .body = body});
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(Json(answer)["error"]["details"][0]["fieldViolations"][0]["field"], "body")
        << answer.body;
  }
  const HttpAnswer query = Http({.path = absl::StrCat(kSchedules, "?pageSize=%205")});
  EXPECT_EQ(query.status, 400) << query.body;
}

TEST_F(DoorsTest, PayloadIsAlsoTextOrJson) {
  const auto payload = [](const std::string& field) {
    const HttpAnswer answer = Http(
        {.method = "POST",
         .path = "/v1/tenants/default/events?validateOnly=true",
         .body = absl::StrCat("{", field, R"(,"target":{"http":{"uri":"http://127.0.0.1:9/"}}})")});
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json(answer).value("status", ""), "SCHEDULED") << answer.body;
    return Json(answer).value("payload", "");
  };
  EXPECT_EQ(payload(R"("payload":"eyJhIjoxfQ==")"), "eyJhIjoxfQ==");
  EXPECT_EQ(payload(R"("payloadText":"{\"a\":1}")"), "eyJhIjoxfQ==");
  EXPECT_EQ(payload(R"("payloadJson":{"a":1})"), "eyJhIjoxfQ==");
}

TEST_F(DoorsTest, DefaultCompletionFollowsThePolicyAndIsSaid) {
  const auto policy = [](const std::string& id, const std::string& limit) {
    const HttpAnswer answer =
        Http({.method = "POST",
              .path = absl::StrCat("/v1/tenants/default/policies?policyId=", id),
              .body = limit});
    EXPECT_EQ(answer.status, 200) << answer.body;
  };
  policy("few", R"({"maxConcurrent":2,"holdTimeout":"1800s"})");
  policy("slow", R"({"maxPerSecond":0.5})");
  const auto by_rest = [](const std::string& id, const std::string& more) {
    const HttpAnswer answer =
        Http({.method = "POST",
              .path = absl::StrCat(kSchedules, "?validateOnly=true"),
              .body = absl::StrCat(R"({"cron":"0 3 1 1 *","policy":")", id, "\"", more,
                                   R"(,"target":{"http":{"uri":"http://127.0.0.1:9/"}}})")});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json(answer);
  };
  const auto by_grpc = [](const std::string& id, v1::Completion completion) {
    v1::CreateScheduleRequest request;
    request.set_parent("tenants/default");
    request.set_validate_only(true);
    v1::Schedule& schedule = *request.mutable_schedule();
    schedule.set_cron("0 3 1 1 *");
    schedule.mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
    schedule.set_policy(id);
    schedule.set_completion(completion);
    const auto made = standalone_->Call<v1::Schedule>("CreateSchedule", request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(v1::Schedule());
  };
  // A rate alone asks nothing of the consumer.
  EXPECT_EQ(by_rest("slow", "").value("completion", ""), "ON_DELIVERY");
  EXPECT_EQ(by_rest("slow", "").value("warnings", json::array()).size(), 0u);
  EXPECT_EQ(by_grpc("slow", v1::COMPLETION_UNSPECIFIED).completion(), v1::ON_DELIVERY);
  EXPECT_EQ(by_grpc("slow", v1::COMPLETION_UNSPECIFIED).warnings_size(), 0);
  // A request that does not say that the consumer gives tokens back gets a warning.
  const json warned = by_rest("few", "");
  EXPECT_EQ(warned.value("completion", ""), "ON_RELEASE");
  ASSERT_EQ(warned.value("warnings", json::array()).size(), 1u) << warned;
  EXPECT_THAT(warned["warnings"][0].get<std::string>(),
              HasSubstr("the consumer must give tokens back"));
  const v1::Schedule same = by_grpc("few", v1::COMPLETION_UNSPECIFIED);
  EXPECT_EQ(same.completion(), v1::ON_RELEASE);
  ASSERT_EQ(same.warnings_size(), 1);
  EXPECT_EQ(same.warnings(0), warned["warnings"][0].get<std::string>());
  EXPECT_EQ(by_rest("few", R"(,"completion":"ON_RELEASE")").value("warnings", json::array()).size(),
            0u);
  EXPECT_EQ(by_grpc("few", v1::ON_DELIVERY).warnings_size(), 0);
}

TEST_F(DoorsTest, EventAtATargetThatIsDownSaysSo) {
  // Nothing listens on this port. Twenty failures open the circuit breaker; those after them wait.
  const std::string target = R"({"http":{"uri":"http://127.0.0.1:9/down"}})";
  json requests = json::array();
  for (int i = 0; i < 20; ++i) requests.push_back({{"event", {{"target", json::parse(target)}}}});
  const HttpAnswer made = Http({.method = "POST",
                                .path = "/v1/tenants/default/events:batchCreate",
                                .body = json({{"requests", requests}}).dump()});
  ASSERT_EQ(made.status, 200) << made.body;
  // Probes take one of them now and then, so the calls may see different events.
  json listed, got;
  v1::Event by_grpc;
  const auto waits = [&] {
    const HttpAnswer list =
        Http({.path = "/v1/tenants/default/events?filter=state%3DPENDING&pageSize=1000"});
    for (const json& event : Json(list).value("events", json::array())) {
      if (event.value("status", "") != "TARGET_DOWN") continue;
      listed = event;
      got = Json(Http({.path = absl::StrCat("/v1/", event.value("name", ""))}));
      v1::GetEventRequest request;
      request.set_name(event.value("name", ""));
      by_grpc = standalone_->Call<v1::Event>("GetEvent", request).value_or(v1::Event());
      return got.value("status", "") == "TARGET_DOWN" && got.contains("nextAttemptTime") &&
             by_grpc.status() == v1::Event::TARGET_DOWN;
    }
    // All have been tried. Now the breaker is open, or soon: others wait.
    Http({.method = "POST",
          .path = "/v1/tenants/default/events",
          .body = absl::StrCat(R"({"target":)", target, "}")});
    return false;
  };
  ASSERT_TRUE(integration::Await(waits, absl::Seconds(60), absl::Milliseconds(100))) << got;
  for (const std::string& reason :
       {listed.value("reason", ""), got.value("reason", ""), by_grpc.reason()})
    EXPECT_THAT(reason, testing::StartsWith("target is down: "));
  EXPECT_EQ(got.value("state", ""), "PENDING");
  EXPECT_EQ(by_grpc.attempts(), 0);
}

TEST_F(DoorsTest, PagesOfListedOriginsMayCall) {
  const HttpAnswer other =
      Http({.path = kSchedules, .headers = {{"Origin", "https://evil.example"}}});
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(other.Header("access-control-allow-origin"), "");
  const HttpAnswer listed =
      Http({.path = kSchedules, .headers = {{"Origin", "https://ops.example"}}});
  EXPECT_EQ(listed.Header("access-control-allow-origin"), "https://ops.example");
  EXPECT_EQ(listed.Header("vary"), "Accept-Encoding, Origin");
  const HttpAnswer preflight = Http(
      {.method = "OPTIONS",
       .path = kSchedules,
       .headers = {{"Origin", "https://ops.example"}, {"Access-Control-Request-Method", "PATCH"}}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Header("access-control-allow-origin"), "https://ops.example");
  EXPECT_THAT(preflight.Header("access-control-allow-methods"), HasSubstr("PATCH"));
}

}  // namespace doors_test
}  // namespace escapement::doors
