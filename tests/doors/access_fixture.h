// AccessTest: a secured standalone process with two tenants, and callers of every kind.
//
// Threads: the main thread only.

#ifndef TESTS_DOORS_ACCESS_FIXTURE_H_
#define TESTS_DOORS_ACCESS_FIXTURE_H_

#include <google/protobuf/descriptor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/rest/request_reader.h"
#include "common/rpc/method_access.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/calendar_service.pb.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/key_service.pb.h"
#include "escapement/v1/notification_service.pb.h"
#include "escapement/v1/operation_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/target_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_requests.h"
#include "tests/doors/door_cases.h"
#include "tests/doors/secured_standalone.h"

namespace escapement::doors {

inline std::string GrpcPath(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

inline std::string LastPart(const std::string& name) { return name.substr(name.rfind('/') + 1); }
inline std::string Bearer(const v1::ApiKey& key) { return "Bearer " + key.secret(); }

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
  v1::Access::Role role = v1::Access::ROLE_UNSPECIFIED;
  std::string tenant = {};  // "": all tenants
};

// The answers of both doors to one request.
struct Answers {
  absl::Status status;  // gRPC's; for a stream, of the batch
  std::string body;     // REST's; "" if the method has no route
};

// Tenants a and b have the same things: policies "p" and "q", calendars and subscriptions "k" and
// "l", events "e" and "f", three dead letters, two operations, tenants/a/keys, and targets that do
// not answer. Schedule "s" has two runs of three events that go on, and schedule "once" has a run
// that has ended.
class AccessTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("access");
    const absl::Status status = standalone_->Start();
    ASSERT_TRUE(status.ok()) << status;
    for (const char* tenant : {"a", "b"}) {
      MakeTenant(tenant);
      for (int role = v1::Access::VIEWER; role <= v1::Access::ADMIN; ++role)
        AddCaller(tenant, static_cast<v1::Access::Role>(role));
      MakeThings(tenant);
    }
    AddCaller("", v1::Access::VIEWER);
    callers_->push_back({"admin of all", standalone_->admin(), "", v1::Access::ADMIN});
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

  static void AddCaller(const std::string& tenant, v1::Access::Role role) {
    const v1::ApiKey key =
        standalone_->NewKey(absl::StrCat("tenants/", tenant.empty() ? "-" : tenant), role);
    callers_->push_back(
        {absl::StrCat(v1::Access::Role_Name(role), " of ", tenant.empty() ? "all" : tenant),
         Bearer(key), "", role, tenant});
    if (tenant == "a") key_id_ = LastPart(key.name());
  }

  static void AddBadCredentials() {
    const v1::ApiKey revoked = standalone_->NewKey("tenants/a", v1::Access::ADMIN);
    v1::RevokeKeyRequest revoke;
    revoke.set_name(revoked.name());
    ASSERT_TRUE(standalone_->Call<v1::ApiKey>("RevokeKey", revoke).ok());
    v1::CreateKeyRequest create;
    create.set_parent("tenants/-");
    create.mutable_key()->set_role(v1::Access::ADMIN);
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

  // Waits until the list's first page has so many entries, and returns it.
  template <typename Page>
  static Page AwaitPage(const std::string& method, const std::string& request, int count,
                        int (Page::*size)() const) {
    const auto message = ReadRequestText(*Method(method), "", request);
    auto page = AwaitOk([&]() -> absl::StatusOr<Page> {
      auto answer = standalone_->Call<Page>(method, *message);
      if (answer.ok() && (*answer.*size)() < count)
        return absl::UnavailableError("so far: " + answer->DebugString());
      return answer;
    });
    EXPECT_TRUE(page.ok()) << method << " " << request << ": " << page.status();
    return page.ok() ? *std::move(page) : Page();
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
    for (const char* id : {"k", "l"}) {
      Do<v1::Calendar>("CreateCalendar", tenant,
                       absl::StrCat(R"(parent: "tenants/TENANT" calendar_id: ")", id,
                                    R"(" calendar { dates: "2027-01-01" })"));
      // It concerns no schedule, so it tells nothing.
      Do<v1::Subscription>("CreateSubscription", tenant,
                           absl::StrCat(R"(parent: "tenants/TENANT" subscription_id: ")", id,
                                        R"(" subscription { filter: "name = none"
                                        target { http { uri: "http://127.0.0.1:9/" } } })"));
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
    MakeDeadLetters(tenant);
    MakeEndedRun(tenant);
    MakeTargets(tenant);
  }

  // Three events that fail, and two operations that redrive the first two of them; they run on.
  static void MakeDeadLetters(const std::string& tenant) {
    for (int i = 0; i < 3; ++i) {
      Do<v1::Event>("CreateEvent", tenant, R"(parent: "tenants/TENANT" event {
          due_time { seconds: 1 } target { http { uri: "http://127.0.0.1:9/" } }
          retry_policy { max_attempts: 1 max_age { nanos: 1000000 } } })");
    }
    const auto letters = AwaitPage<v1::ListDeadLettersResponse>(
        "ListDeadLetters", absl::StrCat("parent: 'tenants/", tenant, "'"), 3,
        &v1::ListDeadLettersResponse::dead_letters_size);
    ASSERT_GE(letters.dead_letters_size(), 3);
    (*letters_)[tenant] = letters.dead_letters(0).name();
    for (int i = 0; i < 2; ++i) {
      const v1::Operation operation = Do<v1::Operation>(
          "RedriveDeadLetters", tenant, R"(parent: "tenants/TENANT" max_per_second: 0.001)");
      (*operations_)[tenant] = operation.name();
      v1::GetOperationRequest get;
      get.set_name(operation.name());
      const auto redriven = AwaitOk([&]() -> absl::StatusOr<v1::Operation> {
        auto got = standalone_->Call<v1::Operation>("GetOperation", get);
        if (got.ok() && got->done_count() == 0) return absl::UnavailableError("not yet");
        return got;
      });
      ASSERT_TRUE(redriven.ok()) << redriven.status();
      EXPECT_EQ(redriven->state(), v1::Operation::RUNNING);
    }
  }

  // Events that have ended are always listed. Their target is another one, of which the handler
  // does not know yet that it is down.
  static void MakeEndedRun(const std::string& tenant) {
    Do<v1::Schedule>("CreateSchedule", tenant, R"(parent: "tenants/TENANT" schedule_id: "once"
        schedule { cron: "0 3 1 1 *" event_count: 3 retry_policy { max_attempts: 1 }
                   target { http { uri: "http://127.0.0.1:7/" } } })");
    const v1::Run run =
        Do<v1::Run>("TriggerSchedule", tenant, R"(name: "tenants/TENANT/schedules/once")");
    (*ended_runs_)[tenant] = absl::StrCat("schedules/once/runs/", LastPart(run.name()));
    AwaitPage<v1::ListRunEventsResponse>(
        "ListRunEvents", absl::StrCat("parent: '", run.name(), "' filter: 'outcome=FAILED'"), 3,
        &v1::ListRunEventsResponse::events_size);
  }

  // The runs have used one target. Waits until both are listed.
  static void MakeTargets(const std::string& tenant) {
    Do<v1::Event>("CreateEvent", tenant, R"(parent: "tenants/TENANT" event_id: "t"
        event { due_time { seconds: 1 } target { grpc { uri: "127.0.0.1:9" } } })");
    AwaitPage<v1::ListTargetsResponse>("ListTargets",
                                       absl::StrCat("parent: 'tenants/", tenant, "'"), 2,
                                       &v1::ListTargetsResponse::targets_size);
  }

  static const google::protobuf::MethodDescriptor* Method(const std::string& name) {
    for (const google::protobuf::MethodDescriptor* method : PublicMethods()) {
      if (method->name() == name) return method;
    }
    ADD_FAILURE() << "no method " << name;
    return nullptr;
  }

  // Calls through both doors. The answers must be the same.
  static Answers Ask(const google::protobuf::MethodDescriptor& method,
                     const google::protobuf::Message& request, const CallerCase& caller) {
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
    const integration::HttpAnswer by_rest = standalone_->Http(call, caller.authorization);
    answers.body = by_rest.body;
    if (method.name() == "Ingest" && by_rest.status == 200) {
      // The line's texts are its own.
      EXPECT_EQ(nlohmann::json::parse(by_rest.body, nullptr, false)["error"].value("code", 0),
                rest::HttpStatusOf(answers.status.code()))
          << by_rest.body;
      return answers;
    }
    EXPECT_EQ(by_rest.status, rest::HttpStatusOf(answers.status.code())) << by_rest.body;
    if (answers.status.ok()) return answers;
    EXPECT_EQ(nlohmann::json::parse(by_rest.body, nullptr, false),
              nlohmann::json::parse(rest::ErrorAnswer(answers.status).body));
    if (by_rest.status == 401) {
      EXPECT_EQ(by_rest.Header("www-authenticate"), "Bearer");
    }
    return answers;
  }

  // Expects what the proto's option of the method says of a caller's request for the tenant.
  static void ExpectAsDeclared(const google::protobuf::MethodDescriptor& method,
                               const CallerCase& caller, const std::string& tenant) {
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
      EXPECT_EQ(ErrorMetadataValue(status, "needed"),
                v1::Access::Role_Name(access.access().role()));
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
  static std::string Listed(const google::protobuf::MethodDescriptor& method,
                            google::protobuf::Message& request, const CallerCase& caller) {
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
  static std::unique_ptr<google::protobuf::Message> ListRequest(
      const google::protobuf::MethodDescriptor& method, const std::string& tenant) {
    return ReadRequestText(method, tenant,
                           absl::StrReplaceAll(Probes().at(method.name()).request,
                                               {{"schedules/none", "schedules/s"},
                                                {"schedules/none/runs/20260101T000000-0-UTC",
                                                 (*ended_runs_)[tenant]}}));
  }

  static std::vector<const google::protobuf::MethodDescriptor*> Lists() {
    std::vector<const google::protobuf::MethodDescriptor*> lists;
    for (const google::protobuf::MethodDescriptor* method : PublicMethods()) {
      // GetPolicyUsage and ListPolicyKeys have no pages, because no event holds a token or waits
      // for one here.
      if (method->input_type()->FindFieldByName("page_token") != nullptr &&
          method->name() != "GetPolicyUsage" && method->name() != "ListPolicyKeys")
        lists.push_back(method);
    }
    return lists;
  }

  static inline SecuredStandalone* standalone_ = nullptr;
  static inline auto* const callers_ = new std::vector<CallerCase>();
  static inline std::string key_id_;  // the last key of tenants/a
  // The occurrence of the last run, by tenant.
  static inline auto* const runs_ = new std::map<std::string, std::string>();
  // A run whose events have ended, "schedules/…/runs/…", by tenant.
  static inline auto* const ended_runs_ = new std::map<std::string, std::string>();
  // The names of a dead letter and of a running operation, by tenant.
  static inline auto* const letters_ = new std::map<std::string, std::string>();
  static inline auto* const operations_ = new std::map<std::string, std::string>();
};

}  // namespace escapement::doors

#endif  // TESTS_DOORS_ACCESS_FIXTURE_H_
