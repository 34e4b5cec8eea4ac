// The gate over a store in memory: keys, certificates, roles, tenants, and the audit of refusals.

#include "common/auth/platform_gate.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/auth/key_directory.h"
#include "common/base/proto_time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/v1/schedule_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace platform_gate_test {

using ::testing::ElementsAre;

MethodAccess Method(const std::string& rpc) {
  v1::GetScheduleRequest::descriptor();  // links the files
  v1::GetTenantRequest::descriptor();
  return *MethodAccess::Of(*google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrCat("escapement.v1.", rpc)));
}

class PlatformGateTest : public ::testing::Test {
 protected:
  PlatformGateTest() { UseOptions({.required = true}); }
  ~PlatformGateTest() override { executor_->Stop(); }

  void UseOptions(Authenticator::Options options) {
    authenticator_.emplace(std::move(options), keys_, [this] { return client_.NowLow(); });
    gate_.emplace(*authenticator_, nullptr, audit_);
  }

  void StartKeys() {
    executor_->Post([this] { keys_.Start(); });
    ASSERT_TRUE(runtime_.RunUntil([this] { return keys_.loaded(); }, absl::Minutes(1)));
  }

  // Stores a key; returns its text.
  std::string AddKey(const std::string& tenant, v1::Access::Role role) {
    const ApiKeyParts parts = NewApiKey();
    record_.Clear();
    record_.set_tenant(tenant);
    record_.set_key_id(parts.id);
    record_.set_role(role);
    record_.set_secret_sha256(HashApiKeySecret(parts.secret));
    StoreRecord();
    return parts.ToString();
  }
  // Stores `record_`, and waits until the directory must know it.
  void StoreRecord() {
    kv::Commit commit;
    commit.groups.emplace_back().mutations.push_back(
        {.cf = kv::ColumnFamily::kKeys,
         .key = ApiKeyKey(record_.tenant(), record_.key_id()),
         .value = record_.SerializeAsString()});
    client_.CommitAsync(std::move(commit), executor_,
                        [](const auto& result) { EXPECT_TRUE(result.ok()); });
    Advance(absl::Seconds(1));
  }
  void Advance(absl::Duration duration) {
    runtime_.RunUntil([] { return false; }, duration);
  }

  absl::StatusOr<std::shared_ptr<const Caller>> Admit(const std::string& rpc,
                                                      const std::string& authorization) {
    return gate_->Admit(Method(rpc), {.authorization = authorization, .source = "192.0.2.1:9"});
  }
  std::string ReasonOf(const std::string& rpc, const std::string& authorization) {
    return ErrorReason(Admit(rpc, authorization).status());
  }
  std::string Get(const std::string& key) {
    return ReasonOf("ScheduleService.GetSchedule", absl::StrCat("Bearer ", key));
  }

  const kv::MemDisk::Family& Rows(kv::ColumnFamily cf) const {
    return store_.disk()->families[static_cast<size_t>(cf)];
  }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, {}};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("test");
  kv::KvClient client_{
      store_, runtime_, {.name = "test", .on_session_lost = {}, .session_executor = nullptr}};
  KeyDirectory keys_{client_, executor_};
  AuditLog audit_{client_, executor_};
  std::optional<Authenticator> authenticator_;
  std::optional<PlatformGate> gate_;
  storage::v1::KeyRecord record_;
};

TEST_F(PlatformGateTest, CallWithoutCredentialsIsRefusedOnlyIfTheyAreRequired) {
  StartKeys();
  EXPECT_EQ(ReasonOf("ScheduleService.GetSchedule", ""), "CREDENTIAL_MISSING");
  UseOptions({});
  const auto caller = Admit("ScheduleService.DeleteSchedule", "");
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ((*caller)->principal, "anonymous");
  EXPECT_EQ((*caller)->source, "192.0.2.1:9");
  EXPECT_EQ(Get("esc_x"), "CREDENTIAL_MALFORMED") << "what is presented must be valid";
}

TEST_F(PlatformGateTest, KeyIsAcceptedInItsFormAlone) {
  StartKeys();
  const std::string key = AddKey("t", v1::Access::VIEWER);
  const auto caller = Admit("ScheduleService.GetSchedule", absl::StrCat("bearer  ", key));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ((*caller)->principal, absl::StrCat("key/", ParseApiKey(key)->id));
  EXPECT_EQ((*caller)->tenant, "t");
  std::string wrong = key;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(Get(wrong), "CREDENTIAL_INVALID");
  EXPECT_EQ(Get(NewApiKey().ToString()), "CREDENTIAL_INVALID");
  EXPECT_EQ(Get(key + "0"), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(Get("eyJhbGciOiJub25lIn0.e30."), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(ReasonOf("ScheduleService.GetSchedule", key), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(ReasonOf("ScheduleService.GetSchedule", "Basic YTpi"), "CREDENTIAL_MALFORMED");
  EXPECT_EQ(ReasonOf("ScheduleService.GetSchedule", "Bearer"), "CREDENTIAL_MALFORMED");
}

TEST_F(PlatformGateTest, RevokedOrExpiredKeyIsRefusedWithinASecond) {
  StartKeys();
  const std::string key = AddKey(std::string(kAllTenants), v1::Access::ADMIN);
  EXPECT_EQ(Get(key), "");
  record_.set_expire_time_micros(ToMicros(client_.NowLow() + absl::Minutes(1)));
  StoreRecord();
  EXPECT_EQ(Get(key), "");
  Advance(absl::Minutes(1));
  EXPECT_EQ(Get(key), "CREDENTIAL_EXPIRED");
  record_.clear_expire_time_micros();
  record_.set_revoke_time_micros(1);
  StoreRecord();
  EXPECT_EQ(Get(key), "CREDENTIAL_REVOKED");
}

TEST_F(PlatformGateTest, NoKeyIsJudgedBeforeTheKeysAreRead) {
  EXPECT_EQ(Get(NewApiKey().ToString()), "NOT_READY");
}

TEST_F(PlatformGateTest, EachRoleMayDoWhatTheProtoSays) {
  StartKeys();
  const std::vector<std::pair<std::string, v1::Access::Role>> methods = {
      {"ScheduleService.ListSchedules", v1::Access::VIEWER},
      {"ScheduleService.PauseSchedule", v1::Access::OPERATOR},
      {"ScheduleService.UpdateSchedule", v1::Access::EDITOR}};
  for (const auto role :
       {v1::Access::VIEWER, v1::Access::OPERATOR, v1::Access::EDITOR, v1::Access::ADMIN}) {
    const std::string key = absl::StrCat("Bearer ", AddKey("t", role));
    for (const auto& [rpc, needed] : methods)
      EXPECT_EQ(ReasonOf(rpc, key), role >= needed ? "" : "ROLE_TOO_LOW") << rpc << " " << role;
    EXPECT_EQ(ReasonOf("TenantService.CreateTenant", key),
              role == v1::Access::ADMIN ? "NEEDS_ALL_TENANTS" : "ROLE_TOO_LOW");
  }
  const std::string all = AddKey(std::string(kAllTenants), v1::Access::ADMIN);
  EXPECT_EQ(ReasonOf("TenantService.CreateTenant", absl::StrCat("Bearer ", all)), "");
}

TEST_F(PlatformGateTest, OtherTenantsAreNotFoundWhetherTheyExistOrNot) {
  const Caller caller{"cert/DNS:a", v1::Access::ADMIN, "t"};
  v1::UpdateScheduleRequest request;
  const auto check = [&](const std::string& name) {
    request.mutable_schedule()->set_name(name);
    return gate_->CheckRequest(Method("ScheduleService.UpdateSchedule"), caller, name, request);
  };
  EXPECT_TRUE(check("tenants/t/schedules/s").ok());
  EXPECT_EQ(check("tenants/default/schedules/s").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(check("tenants/none/schedules/s").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(check("tenants/-/schedules/s").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(check("nonsense").ok()) << "the method refuses it with its field";
  const Caller all{"cert/DNS:b", v1::Access::ADMIN};
  EXPECT_TRUE(gate_
                  ->CheckRequest(Method("ScheduleService.UpdateSchedule"), all,
                                 request.schedule().name(), request)
                  .ok());
}

TEST_F(PlatformGateTest, CertificateNamesStandForTheirRoles) {
  StartKeys();
  UseOptions({.required = true,
              .certificate_roles = {{"DNS:escapement-service", v1::Access::SERVICE},
                                    {"URI:spiffe://x/ci", v1::Access::EDITOR}}});
  const auto admit = [&](std::vector<std::string> names) {
    return gate_->Admit(Method("ScheduleService.CreateSchedule"),
                        {.client_names = std::move(names)});
  };
  const auto caller = admit({"DNS:other", "URI:spiffe://x/ci"});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ((*caller)->principal, "cert/URI:spiffe://x/ci");
  EXPECT_EQ((*caller)->role, v1::Access::EDITOR);
  EXPECT_EQ(ErrorReason(admit({"DNS:other"}).status()), "CREDENTIAL_MISSING");
  EXPECT_EQ(ErrorReason(admit({"URI:escapement-service"}).status()), "CREDENTIAL_MISSING");
  // Another authority has made a certificate with the name of a service.
  EXPECT_EQ(ErrorReason(admit({"DNS:escapement-service"}).status()), "CREDENTIAL_MISSING");
  EXPECT_EQ((*admit({"DNS:escapement-service", "URI:spiffe://x/ci"}))->role, v1::Access::EDITOR);
  EXPECT_EQ((*admit({"DNS:escapement-service", kServiceAuthority}))->role, v1::Access::SERVICE);
}

TEST_F(PlatformGateTest, RefusedChangesAreAuditedWithoutTheirCredentials) {
  StartKeys();
  const std::string viewer = AddKey("t", v1::Access::VIEWER);
  EXPECT_FALSE(Admit("ScheduleService.DeleteSchedule", absl::StrCat("Bearer ", viewer)).ok());
  EXPECT_FALSE(Admit("ScheduleService.DeleteSchedule", "Bearer canary").ok());
  EXPECT_FALSE(Admit("ScheduleService.GetSchedule", "Bearer canary").ok());
  Advance(absl::Seconds(1));
  std::vector<std::string> entries;
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kAudit)) {
    storage::v1::AuditRecord record;
    ASSERT_TRUE(record.ParseFromString(value));
    entries.push_back(absl::StrCat(DecodeAuditKey(key)->tenant, " ", record.principal(), " ",
                                   record.method(), " ", record.reason()));
    EXPECT_FALSE(absl::StrContains(value, "canary"));
    EXPECT_FALSE(absl::StrContains(value, ParseApiKey(viewer)->secret));
  }
  EXPECT_THAT(entries, ElementsAre("- unknown DeleteSchedule CREDENTIAL_MALFORMED",
                                   absl::StrCat("t key/", ParseApiKey(viewer)->id,
                                                " DeleteSchedule ROLE_TOO_LOW")));
}

TEST_F(PlatformGateTest, FloodOfUnknownCallersDoesNotFillTheAudit) {
  StartKeys();
  const auto refuse = [&](int calls) {
    for (int i = 0; i < calls; ++i)
      EXPECT_FALSE(Admit("ScheduleService.DeleteSchedule", "Bearer canary").ok());
    Advance(absl::Seconds(10));
  };
  refuse(1000);
  EXPECT_EQ(Rows(kv::ColumnFamily::kAudit).size(), 100u);
  refuse(1000);
  EXPECT_EQ(Rows(kv::ColumnFamily::kAudit).size(), 110u) << "one more each second";
}

TEST_F(PlatformGateTest, UseOfAKeyIsWrittenWithinAMinute) {
  StartKeys();
  const std::string key = AddKey("t", v1::Access::VIEWER);
  EXPECT_EQ(Get(key), "");
  Advance(absl::Seconds(61));
  const auto& rows = Rows(kv::ColumnFamily::kKeys);
  const auto use = rows.find(ApiKeyUseKey(ParseApiKey(key)->id));
  ASSERT_NE(use, rows.end());
  EXPECT_GT(DecodeApiKeyUse(use->second), absl::InfinitePast());
}

TEST(ApiKeyTest, KeysDifferAndKeepTheirForm) {
  const ApiKeyParts a = NewApiKey();
  const ApiKeyParts b = NewApiKey();
  EXPECT_NE(a.id, b.id);
  EXPECT_NE(a.secret, b.secret);
  const auto parsed = ParseApiKey(a.ToString());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->id, a.id);
  EXPECT_TRUE(ApiKeySecretMatches(parsed->secret, HashApiKeySecret(a.secret)));
  EXPECT_FALSE(ApiKeySecretMatches(b.secret, HashApiKeySecret(a.secret)));
  EXPECT_FALSE(ApiKeySecretMatches(a.secret, ""));
  for (const char* bad : {"", "esc_", "esc__", "esc_0123456789abcdef_", "ESC_0123456789abcdef_0"})
    EXPECT_FALSE(ParseApiKey(bad).has_value()) << bad;
}

TEST_F(PlatformGateTest, MessagesOfAnOpenStreamAreRefusedOnceTheTokenHasExpired) {
  StartKeys();
  Caller caller{"jwt/issuer/me", v1::Access::VIEWER, "a"};
  caller.expire_time = client_.NowLow() + absl::Seconds(10);
  v1::GetScheduleRequest request;
  request.set_name("tenants/a/schedules/s");
  const auto reason = [&] {
    return ErrorReason(gate_->CheckRequest(Method("ScheduleService.GetSchedule"), caller,
                                           request.name(), request));
  };
  EXPECT_EQ(reason(), "");
  Advance(absl::Seconds(11));
  EXPECT_EQ(reason(), "CREDENTIAL_EXPIRED");
}

TEST_F(PlatformGateTest, MessagesOfAnOpenStreamAreRefusedOnceTheKeyHasEnded) {
  StartKeys();
  const std::string key = AddKey("a", v1::Access::VIEWER);
  const auto caller = Admit("ScheduleService.GetSchedule", absl::StrCat("Bearer ", key));
  ASSERT_TRUE(caller.ok()) << caller.status();
  v1::GetScheduleRequest request;
  request.set_name("tenants/a/schedules/s");
  const auto reason = [&] {
    return ErrorReason(gate_->CheckRequest(Method("ScheduleService.GetSchedule"), **caller,
                                           request.name(), request));
  };
  EXPECT_EQ(reason(), "");
  record_.set_expire_time_micros(ToMicros(client_.NowLow() + absl::Seconds(10)));
  StoreRecord();
  EXPECT_EQ(reason(), "");
  Advance(absl::Seconds(10));
  EXPECT_EQ(reason(), "CREDENTIAL_EXPIRED");
  record_.set_revoke_time_micros(1);
  StoreRecord();
  EXPECT_EQ(reason(), "CREDENTIAL_REVOKED");
}

}  // namespace platform_gate_test
}  // namespace escapement::auth
