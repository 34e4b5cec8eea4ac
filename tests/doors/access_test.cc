// Who may call what: every public RPC through both doors of a secured standalone process, by
// callers of every role, of another tenant, and with bad credentials. The proto's option of each
// RPC says what must come out.

#include <google/protobuf/descriptor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/rest/answer_writer.h"
#include "common/rpc/method_access.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/audit_service.pb.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/key_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_requests.h"
#include "tests/doors/rest_call.h"
#include "tests/doors/secured_standalone.h"
#include "tests/fixtures/public_routes.h"

namespace escapement::doors {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using integration::HttpAnswer;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using v1::Access;

std::string GrpcPath(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

std::string LastPart(const std::string& name) { return name.substr(name.rfind('/') + 1); }
std::string Bearer(const v1::ApiKey& key) { return "Bearer " + key.secret(); }

// Waits for a call that a master of the platform answers soon.
template <typename Call>
auto AwaitOk(Call call) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  auto answer = call();
  while (!answer.ok() && absl::Now() < deadline) answer = call();
  return answer;
}

struct CallerCase {
  std::string name;
  std::string authorization;
  std::string reason = {};  // why the credential is refused; "": it is valid
  Access::Role role = Access::ROLE_UNSPECIFIED;
  std::string tenant = {};  // "": all tenants
};

// The answers of both doors to one request.
struct Answers {
  absl::Status status;  // gRPC's; for a stream, of the batch
  std::string body;     // REST's; "" if the method has no route
};

// Tenants a and b have the same things: schedule "s" with two runs of three events, policies "p"
// and "q", events "e" and "f", tenants/a/keys.
class AccessTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("access");
    const absl::Status status = standalone_->Start();
    ASSERT_TRUE(status.ok()) << status;
    for (const char* tenant : {"a", "b"}) {
      MakeTenant(tenant);
      for (int role = Access::VIEWER; role <= Access::ADMIN; ++role)
        AddCaller(tenant, static_cast<Access::Role>(role));
      MakeThings(tenant);
    }
    AddCaller("", Access::VIEWER);
    callers_->push_back({"admin of all", standalone_->admin(), "", Access::ADMIN});
    AddBadCredentials();
    for (const CallerCase& caller : *callers_) {
      const absl::Status known = standalone_->AwaitAnswer(caller.authorization, caller.reason);
      ASSERT_TRUE(known.ok()) << caller.name << ": " << known;
    }
  }
  static void TearDownTestSuite() { delete standalone_; }

  static void MakeTenant(const std::string& tenant) {
    v1::CreateTenantRequest request;
    request.set_tenant_id(tenant);
    ASSERT_TRUE(standalone_->Call<v1::Tenant>("CreateTenant", request).ok());
  }

  static void AddCaller(const std::string& tenant, Access::Role role) {
    const v1::ApiKey key =
        standalone_->NewKey(absl::StrCat("tenants/", tenant.empty() ? "-" : tenant), role);
    callers_->push_back(
        {absl::StrCat(Access::Role_Name(role), " of ", tenant.empty() ? "all" : tenant),
         Bearer(key), "", role, tenant});
    if (tenant == "a") key_id_ = LastPart(key.name());
  }

  static void AddBadCredentials() {
    const v1::ApiKey revoked = standalone_->NewKey("tenants/a", Access::ADMIN);
    v1::RevokeKeyRequest revoke;
    revoke.set_name(revoked.name());
    ASSERT_TRUE(standalone_->Call<v1::ApiKey>("RevokeKey", revoke).ok());
    v1::CreateKeyRequest create;
    create.set_parent("tenants/-");
    create.mutable_key()->set_role(Access::ADMIN);
    create.mutable_key()->mutable_expire_time()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 2);
    const auto expired = standalone_->Call<v1::ApiKey>("CreateKey", create);
    ASSERT_TRUE(expired.ok()) << expired.status();
    const std::string wrong_secret =
        revoked.secret().substr(0, revoked.secret().size() - 64) + std::string(64, '0');
    const std::string unknown =
        absl::StrCat("esc_", std::string(16, 'a'), "_", std::string(64, 'a'));
    for (CallerCase& bad :
         std::vector<CallerCase>{{"nobody", "", "CREDENTIAL_MISSING"},
                                 {"wrong scheme", "Basic dXNlcjpwYXNz", "CREDENTIAL_MALFORMED"},
                                 {"no credential", "Bearer ", "CREDENTIAL_MALFORMED"},
                                 {"cut key", "Bearer esc_0123456789abcdef", "CREDENTIAL_MALFORMED"},
                                 {"JWT", "Bearer eyJhbGciOiJub25lIn0.e30.", "CREDENTIAL_MALFORMED"},
                                 {"unknown key", "Bearer " + unknown, "CREDENTIAL_INVALID"},
                                 {"wrong secret", "Bearer " + wrong_secret, "CREDENTIAL_INVALID"},
                                 {"revoked key", Bearer(revoked), "CREDENTIAL_REVOKED"},
                                 {"expired key", Bearer(*expired), "CREDENTIAL_EXPIRED"}}) {
      callers_->push_back(std::move(bad));
    }
  }

  template <typename Response>
  static Response Do(const std::string& method, const std::string& tenant,
                     const std::string& request) {
    const auto message = ReadRequestText(*Method(method), tenant, request);
    auto answer = AwaitOk([&] { return standalone_->Call<Response>(method, *message); });
    EXPECT_TRUE(answer.ok()) << method << " " << request << ": " << answer.status();
    return answer.ok() ? *std::move(answer) : Response();
  }

  static void MakeThings(const std::string& tenant) {
    Do<v1::Schedule>("CreateSchedule", tenant, R"(parent: "tenants/TENANT" schedule_id: "s"
        schedule { cron: "0 3 1 1 *" event_count: 3
                   target { http { uri: "http://127.0.0.1:9/" } } })");
    Do<v1::Schedule>("CreateSchedule", tenant, R"(parent: "tenants/TENANT" schedule_id: "s2"
        schedule { cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })");
    for (const char* id : {"p", "q"}) {
      Do<v1::ThrottlePolicy>("CreatePolicy", tenant,
                             absl::StrCat(R"(parent: "tenants/TENANT" policy_id: ")", id,
                                          R"(" policy { max_concurrent: 1 })"));
    }
    for (const char* id : {"e", "f"}) {
      Do<v1::Event>("CreateEvent", tenant,
                    absl::StrCat(R"(parent: "tenants/TENANT" event_id: ")", id,
                                 R"(" event { due_time { seconds: 4000000000 }
                                  target { http { uri: "http://127.0.0.1:9/" } } })"));
    }
    for (int i = 0; i < 2; ++i) {
      const v1::Run run =
          Do<v1::Run>("TriggerSchedule", tenant, R"(name: "tenants/TENANT/schedules/s")");
      (*runs_)[tenant] = LastPart(run.name());
    }
  }

  static const MethodDescriptor* Method(const std::string& name) {
    for (const MethodDescriptor* method : PublicMethods()) {
      if (method->name() == name) return method;
    }
    ADD_FAILURE() << "no method " << name;
    return nullptr;
  }

  // Calls through both doors. The answers must be the same.
  static Answers Ask(const MethodDescriptor& method, const Message& request,
                     const CallerCase& caller) {
    const fixtures::RawAnswer by_grpc =
        standalone_->Grpc(GrpcPath(method), {request.SerializeAsString()}, caller.authorization);
    Answers answers{FromGrpcStatus(by_grpc.status), ""};
    if (method.name() == "Ingest" && answers.status.ok()) {
      v1::IngestResponse response;
      EXPECT_TRUE(by_grpc.messages.size() == 1 && response.ParseFromString(by_grpc.messages[0]));
      answers.status = absl::Status(static_cast<absl::StatusCode>(response.error_code()),
                                    response.error_message());
    }
    const rest::RestRoute* route = SecuredStandalone::RouteOf(method.name());
    if (route == nullptr) return answers;
    integration::HttpCall call = RestCallOf(*route, request);
    if (method.name() == "Ingest") {
      call.body = "{}\n";
      call.headers.emplace_back("Content-Type", "application/x-ndjson");
    }
    const HttpAnswer by_rest = standalone_->Http(call, caller.authorization);
    answers.body = by_rest.body;
    if (method.name() == "Ingest" && by_rest.status == 200) {
      // The line's texts are its own.
      EXPECT_EQ(json::parse(by_rest.body, nullptr, false)["error"].value("code", 0),
                rest::HttpStatusOf(answers.status.code()))
          << by_rest.body;
      return answers;
    }
    EXPECT_EQ(by_rest.status, rest::HttpStatusOf(answers.status.code())) << by_rest.body;
    if (answers.status.ok()) return answers;
    EXPECT_EQ(json::parse(by_rest.body, nullptr, false),
              json::parse(rest::ErrorAnswer(answers.status).body));
    if (by_rest.status == 401) {
      EXPECT_EQ(by_rest.Header("www-authenticate"), "Bearer");
    }
    return answers;
  }

  // What the proto's option of the method says of a caller's request for the tenant.
  static void ExpectAsDeclared(const MethodDescriptor& method, const CallerCase& caller,
                               const std::string& tenant) {
    const Probe& probe = Probes().at(method.name());
    const auto request = ReadRequestText(method, tenant, probe.request);
    const MethodAccess access = *MethodAccess::Of(method);
    const Answers answers = Ask(method, *request, caller);
    const absl::Status& status = answers.status;
    const std::string named = TenantOf(access.ResourceOf(*request));
    SCOPED_TRACE(absl::StrCat(method.name(), " of tenants/", tenant, " by ", caller.name, ": ",
                              status.ToString()));
    if (!caller.reason.empty()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
      EXPECT_EQ(ErrorReason(status), caller.reason);
    } else if (caller.role < access.access().role()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ErrorReason(status), "ROLE_TOO_LOW");
      EXPECT_EQ(ErrorMetadataValue(status, "needed"), Access::Role_Name(access.access().role()));
    } else if (access.access().all_tenants() && !caller.tenant.empty()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ErrorReason(status), "NEEDS_ALL_TENANTS");
    } else if (!named.empty() && !caller.tenant.empty() && caller.tenant != named) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      if (method.name() != "Ingest") {
        EXPECT_EQ(ErrorMetadataValue(status, "resource"), "tenants/" + named);
      }
    } else {
      EXPECT_EQ(status.code(), probe.code);
    }
  }

  static const CallerCase& Caller(const std::string& name) {
    for (const CallerCase& caller : *callers_) {
      if (caller.name == name) return caller;
    }
    ADD_FAILURE() << name;
    return callers_->front();
  }

  // All pages of the list through gRPC, as text.
  static std::string Listed(const MethodDescriptor& method, Message& request,
                            const CallerCase& caller) {
    std::string all;
    const auto* token = method.input_type()->FindFieldByName("page_token");
    const auto* next = method.output_type()->FindFieldByName("next_page_token");
    for (;;) {
      const fixtures::RawAnswer answer =
          standalone_->Grpc(GrpcPath(method), {request.SerializeAsString()}, caller.authorization);
      EXPECT_TRUE(answer.status.ok()) << method.name() << answer.status.error_message();
      if (!answer.status.ok()) return all;
      const auto page = SecuredStandalone::NewMessage(method.output_type());
      page->ParseFromString(answer.messages.at(0));
      absl::StrAppend(&all, page->DebugString());
      const std::string next_token = page->GetReflection()->GetString(*page, next);
      if (next_token.empty()) return all;
      request.GetReflection()->SetString(&request, token, next_token);
    }
  }

  // The request of a list that has at least two things in each tenant.
  static std::unique_ptr<Message> ListRequest(const MethodDescriptor& method,
                                              const std::string& tenant) {
    return ReadRequestText(method, tenant,
                           absl::StrReplaceAll(Probes().at(method.name()).request,
                                               {{"schedules/none", "schedules/s"},
                                                {"20260101T000000-0-UTC", (*runs_)[tenant]}}));
  }

  static std::vector<const MethodDescriptor*> Lists() {
    std::vector<const MethodDescriptor*> lists;
    for (const MethodDescriptor* method : PublicMethods()) {
      // Nobody holds tokens here, so GetPolicyUsage has no pages.
      if (method->input_type()->FindFieldByName("page_token") != nullptr &&
          method->name() != "GetPolicyUsage")
        lists.push_back(method);
    }
    return lists;
  }

  static SecuredStandalone* standalone_;
  static std::vector<CallerCase>* callers_;
  static std::string key_id_;                        // of a key in tenants/a
  static std::map<std::string, std::string>* runs_;  // occurrence of the last run, by tenant
};
SecuredStandalone* AccessTest::standalone_ = nullptr;
std::vector<CallerCase>* AccessTest::callers_ = new std::vector<CallerCase>();
std::string AccessTest::key_id_;
std::map<std::string, std::string>* AccessTest::runs_ = new std::map<std::string, std::string>();

TEST_F(AccessTest, EachRpcThatIsServedHasAProbe) {
  for (const MethodDescriptor* method : PublicMethods())
    EXPECT_TRUE(Probes().contains(method->name())) << method->full_name();
  EXPECT_EQ(Probes().size(), PublicMethods().size());
  // What the process itself says that it serves: ServerReflectionRequest.list_services.
  const fixtures::RawAnswer answer =
      standalone_->Grpc("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                        {std::string("\x3a\x00", 2)}, "");
  ASSERT_EQ(answer.messages.size(), 1u) << answer.status.error_message();
  std::string served = answer.messages[0];
  for (const std::string& service : fixtures::PublicServices()) {
    EXPECT_THAT(served, HasSubstr(service));
    served = absl::StrReplaceAll(served, {{service, ""}});
  }
  EXPECT_THAT(served, Not(HasSubstr("escapement.v1."))) << "a service that no test knows";
}

TEST_F(AccessTest, NewTenantIsKnownToTheNextCall) {
  for (int i = 0; i < 30; ++i) {
    const std::string tenant = absl::StrCat("next-", i);
    MakeTenant(tenant);
    v1::CreateKeyRequest key;
    key.set_parent("tenants/" + tenant);
    key.mutable_key()->set_role(Access::ADMIN);
    const auto made = standalone_->Call<v1::ApiKey>("CreateKey", key);
    ASSERT_TRUE(made.ok()) << made.status();
  }
}

TEST_F(AccessTest, EachCallerGetsWhatTheOptionOfTheRpcSays) {
  for (const MethodDescriptor* method : PublicMethods()) {
    for (const CallerCase& caller : *callers_) ExpectAsDeclared(*method, caller, "a");
  }
}

TEST_F(AccessTest, OtherTenantsCannotBeToldFromThoseThatDoNotExist) {
  for (const MethodDescriptor* method : PublicMethods()) {
    const std::string& probe = Probes().at(method->name()).request;
    const MethodAccess access = *MethodAccess::Of(*method);
    if (!absl::StrContains(probe, "TENANT")) continue;
    const std::string existing =
        absl::StrReplaceAll(probe, {{"schedules/none", "schedules/s"},
                                    {"policies/none", "policies/p"},
                                    {"events/none", "events/e"},
                                    {"keys/none", "keys/" + key_id_},
                                    {"20260101T000000-0-UTC", (*runs_)["a"]}});
    for (const char* name : {"VIEWER of b", "OPERATOR of b", "EDITOR of b", "ADMIN of b"}) {
      const CallerCase& caller = Caller(name);
      SCOPED_TRACE(absl::StrCat(method->name(), " by ", name));
      std::vector<std::string> answers;
      for (const auto& [tenant, text] :
           {std::pair{"a", &existing}, std::pair{"a", &probe}, std::pair{"ghost", &probe}}) {
        const Answers both = Ask(*method, *ReadRequestText(*method, tenant, *text), caller);
        EXPECT_FALSE(both.status.ok());
        answers.push_back(absl::StrReplaceAll(
            absl::StrCat(absl::StatusCodeToString(both.status.code()), ": ", both.status.message(),
                         json::parse(both.body, nullptr, false).dump()),
            {{"tenants/ghost", "tenants/a"}}));
      }
      EXPECT_EQ(answers[0], answers[1]);
      EXPECT_EQ(answers[0], answers[2]);
      if (caller.role >= access.access().role() && !access.access().all_tenants()) {
        EXPECT_THAT(answers[0], HasSubstr("NOT_FOUND"));
      }
    }
  }
  // Through a part of the request that is not its path.
  const CallerCase& editor = Caller("EDITOR of b");
  const auto refused = [&](const std::string& method, const std::string& request) {
    const Answers answers =
        Ask(*Method(method), *ReadRequestText(*Method(method), "", request), editor);
    EXPECT_EQ(answers.status.code(), absl::StatusCode::kInvalidArgument) << answers.status;
    return answers.body;
  };
  refused("BatchCreateEvents", R"(parent: "tenants/b" requests { parent: "tenants/a" event {
      due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } } })");
  const std::string policy = R"(parent: "tenants/b" schedule { cron: "0 3 1 1 *"
      policy: "tenants/a/policies/$" target { http { uri: "http://127.0.0.1:9/" } } })";
  EXPECT_EQ(refused("CreateSchedule", absl::StrReplaceAll(policy, {{"$", "p"}})),
            refused("CreateSchedule", absl::StrReplaceAll(policy, {{"$", "none"}})));
}

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
    ASSERT_TRUE(RepeatedRequests().contains(method->name())) << method->full_name();
  }
  // In an order in which each finds what it needs.
  for (const char* name :
       {"CreateSchedule", "UpdateSchedule", "PauseSchedule", "ResumeSchedule", "TriggerSchedule",
        "BackfillSchedule", "CreatePolicy", "UpdatePolicy", "PausePolicy", "ResumePolicy",
        "CreateEvent", "BatchCreateEvents", "CancelEvent", "CancelRun", "DeleteSchedule",
        "DeletePolicy", "CreateTenant", "UpdateTenant", "DeleteTenant"}) {
    const MethodDescriptor& method = *Method(name);
    const bool of_all = MethodAccess::Of(method)->access().all_tenants();
    const rest::RestRoute& route = *SecuredStandalone::RouteOf(name);
    for (const std::string tenant : {"a", "b"}) {
      SCOPED_TRACE(absl::StrCat(name, " in ", tenant));
      const CallerCase& caller =
          of_all ? Caller("admin of all") : Caller(absl::StrCat("EDITOR of ", tenant));
      const auto with_ids = [&](const std::string& text) {
        return ReadRequestText(
            method, tenant, absl::StrReplaceAll(text, {{"ID", name}, {"RUN", (*runs_)[tenant]}}));
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
  const std::string large((4 << 20) + 1, ' ');
  const std::string message((16 << 20) + 1, ' ');
  for (const MethodDescriptor* method : PublicMethods()) {
    SCOPED_TRACE(method->name());
    if (method->client_streaming()) continue;
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

}  // namespace
}  // namespace escapement::doors
