// A standalone process that accepts tokens of two issuers, and nothing without credentials.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/auth/testing/test_issuer.h"
#include "common/http/http_server.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace token_test {

using ::escapement::testing::KeySet;
using ::escapement::testing::SigningKey;
using ::escapement::testing::TokenBy;
using ::escapement::testing::WriteFile;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr char kSchedules[] = "/v1/tenants/default/schedules";

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() : folder_(NewFolder("tokens")), keys_file_(folder_ + "/keys.json") {
    WriteFile(keys_file_, KeySet({file_key_}));
    issuer_server_.RouteSync("GET", "/keys", [this](const HttpRequest&) {
      return HttpResponse{.body = KeySet({url_key_})};
    });
    EXPECT_TRUE(issuer_server_.Start().ok());
    WriteFile(folder_ + "/issuers.yaml", absl::StrCat(R"(
issuers:
- issuer: https://by-file
  audience: escapement
  jwks_file: )",
                                                      keys_file_, R"(
  tenant_claim: [tenant]
  role_claim: [groups]
  roles: {readers: viewer, writers: editor}
- issuer: https://by-url
  audience: escapement
  jwks_url: http://)",
                                                      issuer_server_.address(), R"(/keys
  subjects:
    system:serviceaccount:jobs:nightly: {tenant: default, role: viewer}
)"));
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(),
        .folder = folder_,
        .extra_arguments = {{"standalone",
                             {"--require_credentials",
                              absl::StrCat("--jwt_issuers=", folder_, "/issuers.yaml")}}}});
    const absl::Status status = platform_->Start({"standalone"});
    EXPECT_TRUE(status.ok()) << status;
  }
  ~TokenTest() override { issuer_server_.Shutdown(); }

  static Json Claims(const Json& changes = Json::object()) {
    Json claims = {{"iss", "https://by-file"}, {"aud", "escapement"},
                   {"sub", "alice"},           {"exp", absl::ToUnixSeconds(absl::Now()) + 600},
                   {"tenant", "default"},      {"groups", {"readers"}}};
    claims.merge_patch(changes);
    return claims;
  }
  HttpAnswer Call(const std::string& token, const std::string& path = kSchedules,
                  const std::string& method = "GET", const std::string& body = "") {
    HttpCall call{.method = method, .path = path, .body = body};
    if (!token.empty()) call.headers.emplace_back("authorization", absl::StrCat("Bearer ", token));
    const auto answer = HttpSend(platform_->http_address("standalone"), call);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(HttpAnswer{});
  }
  // Calls until the answer has this status; gives up after 20 s.
  bool AwaitStatus(const std::string& token, int status) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (absl::Now() < end) {
      if (Call(token).status == status) return true;
    }
    return false;
  }

  const std::string folder_;
  const std::string keys_file_;
  const SigningKey file_key_ = SigningKey::Rsa("file");
  const SigningKey url_key_ = SigningKey::Ec("url");
  HttpServer issuer_server_{{.listen = "127.0.0.1:0"}};
  std::unique_ptr<Platform> platform_;
};

TEST_F(TokenTest, ATokenOpensWhatItsRoleAndTenantAllow) {
  EXPECT_EQ(Call("").status, 401);
  const std::string reader = TokenBy(file_key_, Claims());
  const HttpAnswer read = Call(reader);
  EXPECT_EQ(read.status, 200) << read.body;
  EXPECT_EQ(Call(reader, "/v1/tenants/other/schedules").status, 404);
  const std::string change = absl::StrCat(kSchedules, "/none:pause");
  EXPECT_EQ(Call(reader, change, "POST", "{}").status, 403);
  const std::string writer = TokenBy(file_key_, Claims({{"groups", "writers"}}));
  EXPECT_EQ(Call(writer, change, "POST", "{}").status, 404);
}

TEST_F(TokenTest, ARefusedTokenGetsItsReasonAndIsNotQuoted) {
  std::string token = TokenBy(file_key_, Claims({{"exp", 1'700'000'000}}));
  EXPECT_THAT(Call(token).body, HasSubstr("CREDENTIAL_EXPIRED"));
  EXPECT_EQ(Call(token).status, 401);
  token = TokenBy(SigningKey::Rsa("file"), Claims());
  EXPECT_THAT(Call(token).body, HasSubstr("CREDENTIAL_INVALID"));
  EXPECT_THAT(Call(token).body, Not(HasSubstr(token.substr(token.rfind('.')))));
  EXPECT_THAT(Call("hunter2").body, HasSubstr("CREDENTIAL_MALFORMED"));
  EXPECT_THAT(Call("hunter2").body, Not(HasSubstr("hunter2")));
}

TEST_F(TokenTest, KeysOfAUrlAreFetched) {
  const std::string nightly = TokenBy(
      url_key_, Claims({{"iss", "https://by-url"}, {"sub", "system:serviceaccount:jobs:nightly"}}));
  EXPECT_TRUE(AwaitStatus(nightly, 200));
  const std::string other = TokenBy(url_key_, Claims({{"iss", "https://by-url"}}));
  EXPECT_EQ(Call(other).status, 401);
}

TEST_F(TokenTest, AReplacedKeyFileCountsWithoutRestart) {
  const SigningKey next = SigningKey::Ec("next");
  const std::string before = TokenBy(file_key_, Claims());
  EXPECT_EQ(Call(before).status, 200);
  WriteFile(keys_file_, KeySet({next}));
  EXPECT_TRUE(AwaitStatus(TokenBy(next, Claims()), 200));
  EXPECT_EQ(Call(before).status, 401);
}

}  // namespace token_test
}  // namespace escapement::integration
