// Access rights: every public RPC through both doors of a secured standalone process, by callers
// of every role, of another tenant, and with bad credentials. The proto's option of each RPC says
// what must come out.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/rpc/method_access.h"
#include "escapement/v1/audit_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_fixture.h"
#include "tests/doors/access_requests.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::doors {
namespace access_test {

using google::protobuf::MethodDescriptor;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using v1::Access;

TEST_F(AccessTest, EachRpcThatIsServedHasAProbe) {
  for (const MethodDescriptor* method : PublicMethods())
    EXPECT_TRUE(Probes().contains(method->name())) << method->full_name();
  EXPECT_EQ(Probes().size(), PublicMethods().size());
  // ServerReflectionRequest.list_services: the services that the process says it serves.
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

TEST_F(AccessTest, RefusedCallsOfAuditedRpcsHaveEntries) {
  // Entries are written after the answer. `call` is made before each look.
  const auto entries = [](const std::string& parent, const std::string& filter,
                          std::function<void()> call = nullptr) {
    v1::ListAuditEntriesRequest list;
    list.set_parent(parent);
    list.set_filter(filter);
    list.set_page_size(1);
    return AwaitOk([&]() -> absl::StatusOr<v1::ListAuditEntriesResponse> {
      if (call) call();
      auto page = standalone_->Call<v1::ListAuditEntriesResponse>("ListAuditEntries", list);
      if (page.ok() && page->audit_entries_size() == 0) return absl::NotFoundError(filter);
      return page;
    });
  };
  for (const MethodDescriptor* method : PublicMethods()) {
    const Access access = method->options().GetExtension(v1::access);
    if (!access.audited()) continue;
    for (const char* caller : {"VIEWER of b", "ADMIN of b"})
      ExpectAsDeclared(*method, Caller(caller), "a");
    const std::string filter = absl::StrCat("method = ", method->name(), " AND result = ");
    // After many calls of unknown callers only one in a second is noted.
    const auto unknown = entries("tenants/-", filter + "UNAUTHENTICATED AND principal = unknown",
                                 [&] { ExpectAsDeclared(*method, Caller("nobody"), "a"); });
    EXPECT_TRUE(unknown.ok()) << unknown.status();
    const auto denied = entries("tenants/b", filter + "PERMISSION_DENIED");
    EXPECT_TRUE(denied.ok()) << denied.status();
    // In the caller's own tenant, which may not learn of another one's audit.
    const auto hidden =
        entries("tenants/b", filter + (access.all_tenants() ? "PERMISSION_DENIED" : "NOT_FOUND"));
    EXPECT_TRUE(hidden.ok()) << hidden.status();
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
                                    {"calendars/none", "calendars/k"},
                                    {"subscriptions/none", "subscriptions/k"},
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
  const auto deletion = [&](const std::string& id) {
    return Ask(*Method("BatchDeleteSchedules"),
               *ReadRequestText(*Method("BatchDeleteSchedules"), "",
                                absl::StrCat(R"(parent: "tenants/b" requests {
                                    name: "tenants/a/schedules/)",
                                             id, R"(" })")),
               editor)
        .body;
  };
  EXPECT_THAT(deletion("s"), HasSubstr("must be of the parent of the batch"));
  EXPECT_EQ(deletion("s"), deletion("none"));
  const std::string policy = R"(parent: "tenants/b" schedule { cron: "0 3 1 1 *"
      policy: "tenants/a/policies/$" target { http { uri: "http://127.0.0.1:9/" } } })";
  EXPECT_EQ(refused("CreateSchedule", absl::StrReplaceAll(policy, {{"$", "p"}})),
            refused("CreateSchedule", absl::StrReplaceAll(policy, {{"$", "none"}})));
}

}  // namespace access_test
}  // namespace escapement::doors
