// A platform of processes that require credentials and speak TLS: who may call what, on every port.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/audit_service.pb.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "escapement/v1/token_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/doors/access_requests.h"
#include "tests/doors/door_cases.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/integration/secured_platform.h"

namespace escapement::integration {
namespace secured_test {

using doors::PublicMethods;
using google::protobuf::MethodDescriptor;
using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kConnect[] = "/escapement.internal.v1.StoreService/Connect";
constexpr char kSchedules[] = "/v1/tenants/default/schedules";

class SecuredTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    secured_ = new SecuredPlatform("secured");
    const absl::Status status = secured_->Start({"store", "master", "master.2", "token_manager"});
    ASSERT_TRUE(status.ok()) << status;
    for (const char* id : {"s", "s2"}) {
      Make<v1::Schedule, v1::CreateScheduleRequest>("ScheduleService/CreateSchedule", id,
                                                    R"(schedule_id: "ID" schedule {
          cron: "0 3 1 1 *" target { http { uri: "http://127.0.0.1:9/" } } })");
    }
    for (const char* id : {"p", "q"}) {
      Make<v1::ThrottlePolicy, v1::CreatePolicyRequest>(
          "PolicyService/CreatePolicy", id, R"(policy_id: "ID" policy { max_concurrent: 1 })");
    }
    for (const char* id : {"e", "f"}) {
      Make<v1::Event, v1::CreateEventRequest>("EventService/CreateEvent", id,
                                              R"(event_id: "ID" event {
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } })");
    }
  }
  static void TearDownTestSuite() { delete secured_; }

  template <typename Response, typename Request>
  static void Make(const std::string& method, const std::string& id, const std::string& text) {
    Request request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrReplaceAll(text, {{"ID", id}}), &request))
        << text;
    request.set_parent("tenants/default");
    const auto made = secured_->Call<Response>(method, request);
    EXPECT_TRUE(made.ok()) << method << made.status();
  }

  // Everything that the API lists, except the audit, the targets and when keys were used.
  static std::string Dump() {
    std::string dump;
    for (const MethodDescriptor* method : PublicMethods()) {
      if (method->input_type()->FindFieldByName("page_token") == nullptr) continue;
      if (method->name() == "ListAuditEntries" || method->name() == "ListRunEvents" ||
          method->name() == "ListTargets")
        continue;
      for (const char* tenant : {"default", "-"}) {
        const auto request =
            doors::ReadRequestText(*method, tenant,
                                   absl::StrReplaceAll(doors::Probes().at(method->name()).request,
                                                       {{"schedules/none", "schedules/s2"}}));
        const fixtures::RawAnswer answer = secured_->Grpc(
            "master", absl::StrCat("/", method->service()->full_name(), "/", method->name()),
            request->SerializeAsString(), secured_->nobody(),
            {{"authorization", secured_->admin()}});
        if (answer.messages.empty()) continue;
        if (method->name() == "ListKeys") {
          v1::ListKeysResponse keys;
          keys.ParseFromString(answer.messages[0]);
          for (v1::ApiKey& key : *keys.mutable_keys()) key.clear_last_use_time();
          absl::StrAppend(&dump, keys.DebugString());
        } else {
          absl::StrAppend(&dump, method->name(), answer.messages[0], "\n");
        }
      }
    }
    return dump;
  }

  static SecuredPlatform* secured_;
};
SecuredPlatform* SecuredTest::secured_ = nullptr;

TEST_F(SecuredTest, OnlyTheServicesCertificateReachesTheStore) {
  const auto connect = [](const PeerTls& tls, const SecuredPlatform::Headers& headers) {
    return secured_->Grpc("store", kConnect, "", tls, headers).status;
  };
  const grpc::Status missing = connect(secured_->nobody(), {});
  EXPECT_EQ(missing.error_code(), StatusCode::UNAUTHENTICATED) << missing.error_message();
  EXPECT_EQ(connect(secured_->operator_tls(), {}).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(connect(secured_->nobody(), {{"authorization", secured_->admin()}}).error_code(),
            StatusCode::PERMISSION_DENIED);
  const grpc::Status service = connect(secured_->service_tls(), {});
  EXPECT_TRUE(service.ok()) << service.error_message();
  const grpc::Status impostor = connect(secured_->impostor_tls(), {});
  EXPECT_EQ(impostor.error_code(), StatusCode::UNAUTHENTICATED) << impostor.error_message();
  EXPECT_THAT(secured_->Https("master", "GET", kSchedules, "", secured_->impostor_tls(), {}),
              StartsWith("HTTP/1.1 401"));
  // A client outside cannot speak as the REST door does.
  EXPECT_EQ(connect(secured_->nobody(), {{"escapement-door-bin", std::string(32, 'x')},
                                         {"escapement-client-name-bin", "DNS:escapement-service"}})
                .error_code(),
            StatusCode::UNAUTHENTICATED);
}

TEST_F(SecuredTest, CertificateOfAnOperatorMayPauseButNotCreate) {
  const PeerTls& tls = secured_->operator_tls();
  const std::string create =
      R"({"cron":"0 3 1 1 *","target":{"http":{"uri":"http://127.0.0.1:9/"}}})";
  const std::string pause = absl::StrCat(kSchedules, "/s2:pause");
  EXPECT_THAT(secured_->Https("master", "POST", pause, "{}", tls, {}), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(secured_->Https("master", "POST", kSchedules, create, tls, {}),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(secured_->Https("master", "POST", pause, "{}", secured_->nobody(), {}),
              StartsWith("HTTP/1.1 401"));
  v1::ResumeScheduleRequest resume;
  resume.set_name("tenants/default/schedules/s2");
  const auto call = [&](const std::string& method, const google::protobuf::Message& request,
                        const PeerTls& caller) {
    return secured_
        ->Grpc("master", "/escapement.v1.ScheduleService/" + method, request.SerializeAsString(),
               caller, {})
        .status.error_code();
  };
  EXPECT_EQ(call("ResumeSchedule", resume, tls), StatusCode::OK);
  EXPECT_EQ(call("CreateSchedule", v1::CreateScheduleRequest(), tls),
            StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call("ResumeSchedule", resume, secured_->nobody()), StatusCode::UNAUTHENTICATED);
  v1::ListAuditEntriesRequest list;
  list.set_parent("tenants/default");
  list.set_filter("principal = \"cert/DNS:operator\" AND result = OK");
  const auto entries =
      secured_->Call<v1::ListAuditEntriesResponse>("AuditService/ListAuditEntries", list);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->audit_entries_size(), 2);
}

TEST_F(SecuredTest, RevokedKeyStopsOnEveryInstance) {
  const v1::ApiKey key = secured_->NewKey("tenants/default", v1::Access::EDITOR);
  const std::string bearer = SecuredPlatform::Bearer(key);
  const std::vector<std::string> instances = {"master", "master.2", "token_manager"};
  for (const std::string& instance : instances) {
    const absl::Status known = secured_->AwaitCode(instance, bearer, StatusCode::OK);
    ASSERT_TRUE(known.ok()) << known;
  }
  // Streams that are open by then.
  grpc::ClientContext ingest_context, token_context;
  for (grpc::ClientContext* context : {&ingest_context, &token_context}) {
    context->AddMetadata("authorization", bearer);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  const auto events = v1::EventService::NewStub(secured_->Channel("master.2", secured_->nobody()));
  const auto ingest = events->Ingest(&ingest_context);
  v1::IngestRequest batch;
  v1::IngestResponse answer;
  batch.set_parent("tenants/default");
  ASSERT_TRUE(ingest->Write(batch) && ingest->Read(&answer));
  const auto tokens =
      v1::TokenService::NewStub(secured_->Channel("token_manager", secured_->nobody()));
  const auto stream = tokens->StreamTokens(&token_context);
  v1::StreamTokensRequest release;
  v1::StreamTokensResponse results;
  release.mutable_release()->add_tokens("forged");
  ASSERT_TRUE(stream->Write(release) && stream->Read(&results));

  v1::RevokeKeyRequest revoke;
  revoke.set_name(key.name());
  ASSERT_TRUE(secured_->Call<v1::ApiKey>("KeyService/RevokeKey", revoke).ok());
  const absl::Time revoked = absl::Now();
  for (const std::string& instance : instances) {
    const absl::Status refused = secured_->AwaitCode(instance, bearer, StatusCode::UNAUTHENTICATED);
    EXPECT_TRUE(refused.ok()) << refused;
  }
  EXPECT_LT(absl::Now() - revoked, absl::Seconds(5));
  ingest->Write(batch);
  EXPECT_FALSE(ingest->Read(&answer)) << answer.DebugString();
  EXPECT_EQ(ingest->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  stream->Write(release);
  EXPECT_FALSE(stream->Read(&results)) << results.DebugString();
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(SecuredTest, StolenViewerKeyChangesNothing) {
  const v1::ApiKey key = secured_->NewKey("tenants/-", v1::Access::VIEWER);
  const v1::ApiKey other = secured_->NewKey("tenants/default", v1::Access::EDITOR);
  const std::string other_id = other.name().substr(other.name().rfind('/') + 1);
  const SecuredPlatform::Headers headers = {{"authorization", SecuredPlatform::Bearer(key)}};
  // It is accepted, in its role.
  for (const char* instance : {"master", "master.2", "token_manager"}) {
    const absl::Status known =
        secured_->AwaitCode(instance, headers[0].second, StatusCode::PERMISSION_DENIED);
    ASSERT_TRUE(known.ok()) << known;
  }
  const std::string before = Dump();
  for (const MethodDescriptor* method : PublicMethods()) {
    if (method->options().GetExtension(v1::access).role() == v1::Access::VIEWER) continue;
    const auto repeated = doors::RepeatedRequests().find(method->name());
    const std::string text =
        repeated != doors::RepeatedRequests().end()
            ? repeated->second.request
            : absl::StrReplaceAll(doors::Probes().at(method->name()).request,
                                  {{"validate_only: true", ""}, {"keys/none", "keys/" + other_id}});
    const auto request = doors::ReadRequestText(
        *method, "default",
        absl::StrReplaceAll(text, {{"RUN", "20260101T000000-0-UTC"},
                                   {"LETTER", "tenants/default/deadLetters/00063f0000000000-none"},
                                   {"OPERATION", "tenants/default/operations/none"}}));
    const std::string path = absl::StrCat("/", method->service()->full_name(), "/", method->name());
    for (const char* instance : {"master", "master.2", "token_manager", "store"}) {
      const grpc::Status status =
          secured_->Grpc(instance, path, request->SerializeAsString(), secured_->nobody(), headers)
              .status;
      const std::string service = method->service()->name();
      const std::string where = instance;
      // Only the store has the files of a snapshot.
      const bool served =
          (absl::StartsWith(where, "master") && method->name() != "ExportSnapshot") ||
          (where == "token_manager" && service == "TokenService") ||
          (where == "store" && service == "StoreService");
      EXPECT_EQ(status.error_code(),
                served ? StatusCode::PERMISSION_DENIED : StatusCode::UNIMPLEMENTED)
          << method->name() << " on " << instance << ": " << status.error_message();
    }
    for (const rest::RestRoute& route : fixtures::PublicRoutes().routes()) {
      if (route.method != method) continue;
      const HttpCall call = doors::RestCallOf(route, *request);
      for (const char* instance : {"master", "master.2"}) {
        EXPECT_THAT(secured_->Https(instance, call.method, call.path, call.body, secured_->nobody(),
                                    headers),
                    StartsWith("HTTP/1.1 403"))
            << method->name();
      }
      EXPECT_THAT(secured_->Https("token_manager", call.method, call.path, call.body,
                                  secured_->nobody(), headers),
                  StartsWith("HTTP/1.1 404"));
    }
  }
  EXPECT_EQ(secured_->Grpc("store", kConnect, "", secured_->nobody(), headers).status.error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(secured_->Https("master", "POST", "/v1/tenants/default/events:ingest",
                              "{\"dueTime\":\"2090-01-01T00:00:00Z\",\"target\":{\"http\":{\"uri\":"
                              "\"http://127.0.0.1:9/\"}}}\n",
                              secured_->nobody(), headers),
              StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(Dump(), before);
  for (const char* parent : {"tenants/default", "tenants/-"}) {
    v1::ListAuditEntriesRequest list;
    list.set_parent(parent);
    list.set_filter(absl::StrCat("principal = \"key/", key.name().substr(key.name().rfind('/') + 1),
                                 "\" AND result = OK"));
    const auto entries =
        secured_->Call<v1::ListAuditEntriesResponse>("AuditService/ListAuditEntries", list);
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ(entries->audit_entries_size(), 0) << entries->DebugString();
  }
}

}  // namespace secured_test
}  // namespace escapement::integration
