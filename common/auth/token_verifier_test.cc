#include <string>

#include "absl/strings/str_cat.h"
#include "common/auth/authenticator.h"
#include "common/auth/testing/test_issuer.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "common/tls/testing/test_certificates.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace token_verifier_test {

using ::escapement::testing::KeySet;
using ::escapement::testing::SigningKey;
using ::escapement::testing::TokenBy;
using ::escapement::testing::WriteFile;
using Json = nlohmann::json;

constexpr int64_t kNow = 1'800'000'000;
constexpr char kKubernetes[] = "https://kubernetes.default.svc.cluster.local";

class TokenVerifierTest : public ::testing::Test {
 protected:
  TokenVerifierTest() {
    const std::string path = absl::StrCat(::testing::TempDir(), "/cluster.json");
    WriteFile(path, KeySet({cluster_}));
    const auto config = ParseIssuerConfig(absl::StrCat(R"(
issuers:
- issuer: https://login
  audience: escapement
  jwks_url: https://login/keys
  tenant_claim: [org, id]
  role_claim: [groups]
  roles: {sre: admin, all: viewer}
- issuer: )",
                                                       kKubernetes, R"(
  audience: escapement
  jwks_file: )",
                                                       path, R"(
  subjects:
    system:serviceaccount:jobs:nightly: {tenant: jobs, role: operator}
)"),
                                          "f");
    EXPECT_TRUE(config.ok()) << config.status();
    tokens_ = std::make_unique<IssuerTokens>(
        *config, runtime_,
        [this](const IssuerRequest&, const std::atomic<bool>&) { return login_answer_; });
    tokens_->Start();
  }

  Json LoginClaims(const Json& changes = Json::object()) {
    Json claims = {{"iss", "https://login"}, {"aud", "escapement"},     {"sub", "alice"},
                   {"exp", kNow + 60},       {"org", {{"id", "acme"}}}, {"groups", {"all", "sre"}}};
    claims.merge_patch(changes);
    return claims;
  }
  absl::StatusOr<Caller> Verify(const std::string& token) {
    return tokens_->Verify(token, absl::FromUnixSeconds(kNow));
  }
  std::string ReasonOf(const std::string& token) { return ErrorReason(Verify(token).status()); }

  const SigningKey login_ = SigningKey::Ec("login");
  const SigningKey cluster_ = SigningKey::Rsa("cluster");
  absl::StatusOr<std::string> login_answer_ = KeySet({login_});
  sim::SimRuntime runtime_{1};
  std::unique_ptr<IssuerTokens> tokens_;
};

TEST_F(TokenVerifierTest, ATokenStandsForACaller) {
  runtime_.RunUntilIdle();
  const auto caller = Verify(TokenBy(login_, LoginClaims()));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->principal, "jwt/https://login/alice");
  EXPECT_EQ(caller->tenant, "acme");
  EXPECT_EQ(caller->role, v1::Access::ADMIN);
}

// The claims of a projected service account token.
TEST_F(TokenVerifierTest, AServiceAccountOfKubernetesIsASubject) {
  const Json claims = {
      {"aud", {"escapement"}},
      {"exp", kNow + 3600},
      {"iat", kNow},
      {"iss", kKubernetes},
      {"kubernetes.io",
       {{"namespace", "jobs"}, {"serviceaccount", {{"name", "nightly"}, {"uid", "1"}}}}},
      {"nbf", kNow},
      {"sub", "system:serviceaccount:jobs:nightly"}};
  const auto caller = Verify(TokenBy(cluster_, claims));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->principal,
            absl::StrCat("jwt/", kKubernetes, "/system:serviceaccount:jobs:nightly"));
  EXPECT_EQ(caller->tenant, "jobs");
  EXPECT_EQ(caller->role, v1::Access::OPERATOR);
  Json other = claims;
  other["sub"] = "system:serviceaccount:jobs:other";
  EXPECT_EQ(ReasonOf(TokenBy(cluster_, other)), "CREDENTIAL_INVALID");
}

TEST_F(TokenVerifierTest, KeysOfOneIssuerDoNotSignForAnother) {
  runtime_.RunUntilIdle();
  const SigningKey other = SigningKey::Ec("login");
  EXPECT_EQ(ReasonOf(TokenBy(other, LoginClaims())), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(TokenBy(cluster_, LoginClaims())), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(TokenBy(login_, LoginClaims({{"iss", kKubernetes}}))), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(TokenBy(login_, LoginClaims({{"iss", "https://x"}}))), "CREDENTIAL_INVALID");
}

TEST_F(TokenVerifierTest, RefusesExpiredAndUnmappedTokens) {
  runtime_.RunUntilIdle();
  EXPECT_EQ(ReasonOf(TokenBy(login_, LoginClaims({{"exp", kNow}}))), "CREDENTIAL_EXPIRED");
  EXPECT_EQ(ReasonOf(TokenBy(login_, LoginClaims({{"groups", nullptr}}))), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(TokenBy(login_, LoginClaims({{"org", {{"id", "*"}}}}))), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf("hunter2"), "CREDENTIAL_MALFORMED");
}

TEST_F(TokenVerifierTest, IsNotReadyWithoutKeysOrTime) {
  const std::string token = TokenBy(login_, LoginClaims());
  EXPECT_EQ(ReasonOf(token), "NOT_READY");
  EXPECT_TRUE(absl::IsUnavailable(Verify(token).status()));
  runtime_.RunUntilIdle();
  EXPECT_TRUE(absl::IsUnavailable(tokens_->Verify(token, absl::InfinitePast()).status()));
  EXPECT_TRUE(Verify(token).ok());
}

TEST_F(TokenVerifierTest, AnUnknownKeyIsLookedUpOnce) {
  runtime_.AdvanceBy(absl::Seconds(10));
  const SigningKey next = SigningKey::Ec("next");
  login_answer_ = KeySet({login_, next});
  EXPECT_EQ(ReasonOf(TokenBy(next, LoginClaims())), "NOT_READY");
  runtime_.RunUntilIdle();
  EXPECT_TRUE(Verify(TokenBy(next, LoginClaims())).ok());
  EXPECT_EQ(ReasonOf(TokenBy(SigningKey::Ec("unknown"), LoginClaims())), "CREDENTIAL_INVALID");
}

}  // namespace token_verifier_test
}  // namespace escapement::auth
