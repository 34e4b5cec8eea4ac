// Every RPC with an etag, on a resource that was deleted and made again; conditional GETs of each
// resource; and every RPC of a tenant that is suspended, or has used up its quotas.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_fixture.h"
#include "tests/doors/access_requests.h"

namespace escapement::doors {
namespace resource_walk_test {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using integration::HttpAnswer;
using nlohmann::json;

// A kind of resource that has an etag.
struct Kind {
  std::string path;    // for REST
  std::string create;  // method, and its request
  std::string request;
  std::string change;  // a body for PATCH
};

// The id of a deleted tenant is free only when nothing of it is left, after some minutes.
constexpr char kTenant[] = "Tenant";
// Calendars and subscriptions cannot be paused.
constexpr char kCalendar[] = "Calendar";
constexpr char kSubscription[] = "Subscription";
// An event is not deleted but cancelled, and cannot be paused.
constexpr char kEvent[] = "Event";

const std::map<std::string, Kind>& Kinds() {
  static const auto* const kinds = new std::map<std::string, Kind>{
      {"Schedule",
       {"/v1/tenants/a/schedules/again", "CreateSchedule",
        R"(parent: "tenants/a" schedule_id: "again" schedule {
            cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })",
        R"({"displayName":"changed"})"}},
      {"Policy",
       {"/v1/tenants/a/policies/again", "CreatePolicy",
        R"(parent: "tenants/a" policy_id: "again" policy { max_concurrent: 1 })",
        R"({"displayName":"changed"})"}},
      {kCalendar,
       {"/v1/tenants/a/calendars/again", "CreateCalendar",
        R"(parent: "tenants/a" calendar_id: "again" calendar { dates: "2027-01-01" })",
        R"({"displayName":"changed"})"}},
      {kSubscription,
       {"/v1/tenants/a/subscriptions/again", "CreateSubscription",
        R"(parent: "tenants/a" subscription_id: "again" subscription {
            target { http { uri: "http://127.0.0.1:9/" } } })",
        R"({"displayName":"changed"})"}},
      {kEvent,
       {"/v1/tenants/a/events/again", "UpsertEvent", R"(event { name: "tenants/a/events/again"
            due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })",
        R"({"priority":3})"}},
      {kTenant,
       {"/v1/tenants/again", "CreateTenant", R"(tenant_id: "again")",
        R"({"displayName":"changed"})"}}};
  return *kinds;
}

// The message of the request that has the etag: the request itself, or the resource in it. Null:
// none.
Message* OwnerOfEtag(Message& request) {
  if (request.GetDescriptor()->FindFieldByName("etag") != nullptr) return &request;
  if (request.GetDescriptor()->FindFieldByName("update_mask") == nullptr) return nullptr;
  Message* resource =
      request.GetReflection()->MutableMessage(&request, request.GetDescriptor()->field(0));
  return resource->GetDescriptor()->FindFieldByName("etag") == nullptr ? nullptr : resource;
}

void SetText(Message& message, const std::string& field, const std::string& value) {
  message.GetReflection()->SetString(&message, message.GetDescriptor()->FindFieldByName(field),
                                     value);
}

class ResourceWalk : public AccessTest {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("resources");
    const absl::Status status = standalone_->Start();
    ASSERT_TRUE(status.ok()) << status;
    MakeTenant("a");
  }

  static HttpAnswer Http(const std::string& method, const std::string& path,
                         std::vector<std::pair<std::string, std::string>> headers = {},
                         const std::string& body = "") {
    return standalone_->Http(
        {.method = method, .path = path, .headers = std::move(headers), .body = body},
        standalone_->admin());
  }
  static std::string EtagAt(const std::string& path) {
    return json::parse(Http("GET", path).body, nullptr, false).value("etag", "");
  }
  static void Create(const Kind& kind) {
    const auto request = ReadRequestText(*Method(kind.create), "", kind.request);
    const auto answer = AwaitOk([&] {
      const auto raw = standalone_->Grpc(GrpcPath(*Method(kind.create)),
                                         {request->SerializeAsString()}, standalone_->admin());
      return absl::StatusOr<int>(raw.status.ok() ? absl::StatusOr<int>(0)
                                                 : FromGrpcStatus(raw.status));
    });
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  // A tenant must have been suspended for a while.
  static void Delete(const Kind& kind) {
    if (kind.create == "CreateTenant") {
      ASSERT_EQ(Http("PATCH", kind.path, {}, R"({"state":"SUSPENDED"})").status, 200);
    }
    const auto deleted = AwaitOk([&] {
      const HttpAnswer answer = kind.create == "UpsertEvent"
                                    ? Http("POST", kind.path + ":cancel", {}, "{}")
                                    : Http("DELETE", kind.path);
      return answer.status == 200 ? absl::StatusOr<int>(200) : absl::UnavailableError(answer.body);
    });
    ASSERT_TRUE(deleted.ok()) << deleted.status();
  }

  // Calls as this caller. The error of a stream is that of its batch.
  static absl::Status StatusOf(const MethodDescriptor& method, const Message& request,
                               const std::string& authorization) {
    const fixtures::RawAnswer answer =
        standalone_->Grpc(GrpcPath(method), {request.SerializeAsString()}, authorization);
    if (method.name() != "Ingest" || !answer.status.ok()) return FromGrpcStatus(answer.status);
    v1::IngestResponse response;
    EXPECT_TRUE(answer.messages.size() == 1 && response.ParseFromString(answer.messages[0]));
    return absl::Status(static_cast<absl::StatusCode>(response.error_code()),
                        response.error_message());
  }
};

TEST_F(ResourceWalk, FormerEtagIsRefusedByEachRpcWithOne) {
  std::map<std::string, std::string> former;
  for (const auto& [name, kind] : Kinds()) {
    Create(kind);
    former[name] = EtagAt(kind.path);
    Delete(kind);
    if (name == kTenant) continue;
    Create(kind);
    EXPECT_NE(EtagAt(kind.path), former[name]) << name;
  }
  std::set<std::string> walked;
  for (const MethodDescriptor* method : PublicMethods()) {
    if (absl::StartsWith(method->name(), "Create")) continue;
    const auto request =
        ReadRequestText(*method, "a",
                        absl::StrReplaceAll(Probes().at(method->name()).request,
                                            {{"schedules/none", "schedules/again"},
                                             {"policies/none", "policies/again"},
                                             {"calendars/none", "calendars/again"},
                                             {"subscriptions/none", "subscriptions/again"},
                                             {"events/none", "events/again"}}));
    Message* const owner = OwnerOfEtag(*request);
    if (owner == nullptr) continue;
    if (method->name() == "UpdateCell") continue;  // door_cases.cc has its etag
    SCOPED_TRACE(method->name());
    std::string name;
    const std::string resource = MethodAccess::Of(*method)->ResourceOf(*request);
    for (const auto& [candidate, kind] : Kinds()) {
      if (absl::EndsWith(method->name(), candidate) || kind.path == "/v1/" + resource)
        name = candidate;
    }
    ASSERT_NE(name, "") << "a kind of resource that this test does not know";
    if (name == kTenant) SetText(*owner, "name", "tenants/again");
    const FieldDescriptor* validates = method->input_type()->FindFieldByName("validate_only");
    ASSERT_NE(validates, nullptr);
    request->GetReflection()->SetBool(request.get(), validates, true);
    SetText(*owner, "etag", former[name]);
    const absl::Status stale = StatusOf(*method, *request, standalone_->admin());
    walked.insert(name);
    EXPECT_EQ(ErrorReason(stale), name == kTenant ? "RESOURCE_NOT_FOUND" : "ETAG_MISMATCH")
        << stale;
    if (name == kTenant) continue;
    SetText(*owner, "etag", EtagAt(Kinds().at(name).path));
    const absl::Status current = StatusOf(*method, *request, standalone_->admin());
    EXPECT_NE(ErrorReason(current), "ETAG_MISMATCH") << current;
  }
  EXPECT_EQ(walked.size(), Kinds().size());
  for (const auto& [name, kind] : Kinds()) {
    if (name != kTenant) Delete(kind);
  }
}

TEST_F(ResourceWalk, ConditionalGetIsAnsweredUnlessAllIsTheSame) {
  for (const MethodDescriptor* method : PublicMethods()) {
    if (method->output_type()->FindFieldByName("etag") == nullptr) continue;
    const rest::RestRoute* route = SecuredStandalone::RouteOf(method->name());
    if (route == nullptr || route->http_method != "GET") continue;
    if (method->name() == "GetCell") continue;
    ASSERT_TRUE(Kinds().contains(method->name().substr(3))) << method->name();
  }
  for (const auto& each : Kinds()) {
    const std::string& name = each.first;
    Kind kind = each.second;
    if (name == kTenant) {
      kind.path = "/v1/tenants/other";
      kind.request = R"(tenant_id: "other")";
    }
    SCOPED_TRACE(name);
    Create(kind);
    std::vector<std::pair<std::string, std::string>> seen;  // validators with what they stood for
    const auto look = [&] {
      HttpAnswer now, after;
      std::vector<HttpAnswer> answers;
      // A check changes a subscription between two calls.
      do {
        now = Http("GET", kind.path);
        ASSERT_EQ(now.status, 200) << now.body;
        answers.clear();
        for (const auto& [validator, body] : seen)
          answers.push_back(Http("GET", kind.path, {{"If-None-Match", validator}}));
        after = Http("GET", kind.path);
      } while (after.body != now.body);
      for (size_t i = 0; i < seen.size(); ++i) {
        const std::string& body = seen[i].second;
        EXPECT_EQ(answers[i].status, body == now.body ? 304 : 200) << body << now.body;
      }
      seen.emplace_back(now.Header("etag"), now.body);
    };
    look();
    look();
    ASSERT_EQ(Http("PATCH", kind.path, {}, kind.change).status, 200);
    look();
    if (name != kTenant && name != kEvent && name != kCalendar && name != kSubscription) {
      ASSERT_EQ(Http("POST", kind.path + ":pause", {}, "{}").status, 200);
      look();
    }
    Delete(kind);
    if (name == kTenant) continue;
    Create(kind);
    look();
    Delete(kind);
  }
}

TEST_F(ResourceWalk, SuspendedTenantsAdminMayReadAndTakeAway) {
  MakeTenant("quiet");
  const std::string admin =
      "Bearer " + standalone_->NewKey("tenants/quiet", v1::Access::ADMIN).secret();
  ASSERT_TRUE(standalone_->AwaitAnswer(admin, "").ok());
  Do<v1::Tenant>("UpdateTenant", "quiet", R"(tenant { name: "tenants/TENANT" state: SUSPENDED })");
  for (const MethodDescriptor* method : PublicMethods()) {
    const Probe& probe = Probes().at(method->name());
    const v1::Access access = method->options().GetExtension(v1::access);
    if (access.all_tenants() || !absl::StrContains(probe.request, "TENANT")) continue;
    SCOPED_TRACE(method->name());
    const auto request = ReadRequestText(*method, "quiet", probe.request);
    const absl::Status status = StatusOf(*method, *request, admin);
    if (!access.audited() || method->name() == "RevokeKey") {
      EXPECT_EQ(status.code(), probe.code) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    }
  }
}

TEST_F(ResourceWalk, TenantWithoutRoomMayReadAndTakeAway) {
  // The requests that add something, with the quota that bounds it.
  const std::map<std::string, std::pair<std::string, std::string>> adding = {
      {"CreateSchedule", {"max_schedules", R"(parent: "tenants/TENANT" schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"BatchCreateSchedules", {"max_schedules", R"(parent: "tenants/TENANT" requests { schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } } })"}},
      {"CreatePolicy", {"max_policies", R"(parent: "tenants/TENANT" policy_id: "more"
          policy { max_concurrent: 1 })"}},
      {"CreateEvent", {"max_pending_events", R"(parent: "tenants/TENANT" event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"BatchCreateEvents", {"max_pending_events", R"(parent: "tenants/TENANT" requests { event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } } })"}},
      {"UpsertEvent", {"max_pending_events", R"(event { name: "tenants/TENANT/events/two"
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })"}},
      {"Ingest", {"max_pending_events", R"(parent: "tenants/TENANT" events { due_time_micros: 1
          overrides { target { http { uri: "http://127.0.0.1:9/" } } } })"}}};
  MakeTenant("full");
  Do<v1::Schedule>("CreateSchedule", "full", R"(parent: "tenants/TENANT" schedule_id: "one"
      schedule { cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })");
  Do<v1::ThrottlePolicy>("CreatePolicy", "full",
                         R"(parent: "tenants/TENANT" policy_id: "one"
                            policy { max_concurrent: 1 })");
  Do<v1::Event>("CreateEvent", "full", R"(parent: "tenants/TENANT" event_id: "one" event {
      due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })");
  Do<v1::Tenant>("UpdateTenant", "full", R"(tenant { name: "tenants/TENANT"
      quotas { max_schedules: 1 max_policies: 1 max_pending_events: 1 } })");
  const std::string admin =
      "Bearer " + standalone_->NewKey("tenants/full", v1::Access::ADMIN).secret();
  ASSERT_TRUE(standalone_->AwaitAnswer(admin, "").ok());
  for (const MethodDescriptor* method : PublicMethods()) {
    SCOPED_TRACE(method->name());
    const Probe& probe = Probes().at(method->name());
    const v1::Access access = method->options().GetExtension(v1::access);
    if (access.all_tenants() || !absl::StrContains(probe.request, "TENANT")) continue;
    const auto added = adding.find(method->name());
    if (added == adding.end()) {
      EXPECT_TRUE(method->name() == "CreateKey" || method->name() == "CreateCalendar" ||
                  method->name() == "CreateSubscription" ||
                  !absl::StrContains(method->name(), "Create"))
          << "does it have a quota?";
    } else {
      const auto request = ReadRequestText(*method, "full", added->second.second);
      const absl::Status status = StatusOf(*method, *request, admin);
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), added->second.first)) << status;
      if (method->name() == "Ingest") continue;
    }
    // A request that only validates adds nothing.
    const auto request = ReadRequestText(*method, "full", probe.request);
    const absl::Status status = StatusOf(*method, *request, admin);
    EXPECT_EQ(status.code(), probe.code) << status;
  }
}

}  // namespace resource_walk_test
}  // namespace escapement::doors
