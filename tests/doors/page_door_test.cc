// The page's door over a secured standalone process: files, session, who may see what.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/audit_service.pb.h"
#include "escapement/v1/key_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/secured_standalone.h"

namespace escapement::doors {
namespace page_door_test {

using integration::HttpAnswer;
using integration::HttpCall;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using v1::Access;

using Headers = std::vector<std::pair<std::string, std::string>>;
const std::pair<std::string, std::string> kCsrf = {"X-Escapement-CSRF", "1"};

class PageDoorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("page");
    ASSERT_TRUE(standalone_->Start().ok());
  }
  static void TearDownTestSuite() { delete standalone_; }

  static HttpAnswer Send(const std::string& method, const std::string& path, Headers headers = {},
                         const std::string& body = "", const std::string& authorization = "") {
    HttpCall call{.method = method, .path = path, .headers = std::move(headers), .body = body};
    return standalone_->Http(std::move(call), authorization);
  }
  static std::string Reason(const HttpAnswer& answer) {
    const json body = json::parse(answer.body, nullptr, false);
    if (!body.contains("error")) return absl::StrCat("no error: ", answer.status);
    return body["error"]["details"][0].value("reason", "");
  }
  static std::string AdminKey() { return standalone_->admin().substr(7); }
  // The cookie of a session that began with this key: "name=value".
  static std::string SignIn(const std::string& key) {
    const HttpAnswer answer = Send("POST", "/ui/session", {kCsrf}, json({{"key", key}}).dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    const std::string cookie = answer.Header("set-cookie");
    EXPECT_THAT(cookie, HasSubstr("; HttpOnly; SameSite=Strict"));
    return cookie.substr(0, cookie.find(';'));
  }

  static SecuredStandalone* standalone_;
};
SecuredStandalone* PageDoorTest::standalone_ = nullptr;

TEST_F(PageDoorTest, EachAddressBelowUiIsThePage) {
  for (const char* path : {"/ui", "/ui/", "/ui/default/schedules/a?state=PAUSED"}) {
    const HttpAnswer answer = Send("GET", path);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr("<div id=\"app\">")) << path;
    EXPECT_EQ(answer.Header("cache-control"), "no-cache");
    const std::string policy = answer.Header("content-security-policy");
    EXPECT_THAT(policy, StartsWith("default-src 'none'; script-src 'self'; style-src 'self';"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(answer.Header("x-content-type-options"), "nosniff");
  }
}

TEST_F(PageDoorTest, RootLeadsToThePage) {
  const HttpAnswer answer = Send("GET", "/");
  EXPECT_EQ(answer.status, 302);
  EXPECT_EQ(answer.Header("location"), "/ui");
}

TEST_F(PageDoorTest, FilesOfThisVersionAreKeptByBrowsers) {
  const std::string index = Send("GET", "/ui").body;
  const size_t begin = index.find("/ui/files/");
  const std::string folder = index.substr(begin, index.find("/page.css") - begin);
  const HttpAnswer plain = Send("GET", folder + "/app.js");
  EXPECT_EQ(plain.status, 200);
  EXPECT_THAT(plain.Header("content-type"), StartsWith("text/javascript"));
  EXPECT_THAT(plain.Header("cache-control"), HasSubstr("immutable"));
  const HttpAnswer packed = Send("GET", folder + "/app.js", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed.Header("content-encoding"), "gzip");
  EXPECT_EQ(rest::Gunzipped(packed.body, 1 << 20).value_or(""), plain.body);
  EXPECT_EQ(Send("GET", folder + "/app.js", {{"If-None-Match", plain.Header("etag")}}).status, 304);
  // A page of another version, during an upgrade, must not keep this one's files as its own.
  EXPECT_EQ(Send("GET", "/ui/files/0123456789abcdef/app.js").Header("cache-control"), "no-cache");
  EXPECT_EQ(Send("GET", folder + "/none.js").status, 404);
  EXPECT_EQ(Send("GET", folder + "/../../session").status, 404);
}

TEST_F(PageDoorTest, CookieServesReadsAndChangesWithTheHeader) {
  const std::string cookie = SignIn(AdminKey());
  EXPECT_EQ(Send("GET", "/v1/tenants/default/schedules", {{"Cookie", cookie}}).status, 200);
  const std::string body = R"({"maxConcurrent":"2"})";
  const std::string path = "/v1/tenants/default/policies?policyId=cookie";
  EXPECT_EQ(Reason(Send("POST", path, {{"Cookie", cookie}}, body)), "CSRF_HEADER_MISSING");
  EXPECT_EQ(Send("GET", "/v1/tenants/default/policies/cookie", {{"Cookie", cookie}}).status, 404);
  EXPECT_EQ(Send("POST", path, {{"Cookie", cookie}, kCsrf}, body).status, 200);
}

TEST_F(PageDoorTest, OtherOriginsMayNotUseTheCookie) {
  const std::string cookie = SignIn(AdminKey());
  for (const Headers& foreign :
       {Headers{{"Sec-Fetch-Site", "cross-site"}}, Headers{{"Sec-Fetch-Site", "same-site"}},
        Headers{{"Origin", "https://evil.example"}}, Headers{{"Origin", "null"}}}) {
    Headers headers = foreign;
    headers.emplace_back("Cookie", cookie);
    headers.push_back(kCsrf);
    EXPECT_EQ(Reason(Send("GET", "/v1/tenants", headers)), "CROSS_ORIGIN");
    EXPECT_EQ(Reason(Send("POST", "/v1/tenants?tenantId=stolen", headers, "{}")), "CROSS_ORIGIN");
    EXPECT_EQ(Reason(Send("GET", "/ui/session", headers)), "CROSS_ORIGIN");
    EXPECT_EQ(Reason(Send("DELETE", "/ui/session", headers)), "CSRF_HEADER_MISSING");
    EXPECT_EQ(Reason(Send("GET", "/ui/platform", headers)), "CROSS_ORIGIN");
  }
  // Lines of events need no type that a browser would ask about first.
  EXPECT_EQ(
      Reason(Send("POST", "/v1/tenants/default/events:ingest",
                  {{"Origin", "https://evil.example"}, {"Content-Type", "text/plain"}}, "{}")),
      "CROSS_ORIGIN");
  EXPECT_EQ(Reason(Send("POST", "/ui/session", {}, json({{"key", AdminKey()}}).dump())),
            "CSRF_HEADER_MISSING")
      << "a foreign page must not sign somebody in";
}

TEST_F(PageDoorTest, SessionSaysWhoTheCallerIs) {
  const json admin = json::parse(Send("GET", "/ui/session", {{"Cookie", SignIn(AdminKey())}}).body);
  EXPECT_EQ(admin["role"], "ADMIN");
  EXPECT_EQ(admin["tenant"], "");
  EXPECT_EQ(admin["principal"], absl::StrCat("key/", kBootstrapKeyId));
  const v1::ApiKey key = standalone_->NewKey("tenants/default", Access::VIEWER);
  ASSERT_TRUE(standalone_->AwaitAnswer("Bearer " + key.secret(), "").ok());
  const json viewer =
      json::parse(Send("GET", "/ui/session", {{"Cookie", SignIn(key.secret())}}).body);
  EXPECT_EQ(viewer["role"], "VIEWER");
  EXPECT_EQ(viewer["tenant"], "default");
  EXPECT_EQ(Send("GET", "/ui/session").status, 401);
  EXPECT_EQ(json::parse(Send("GET", "/ui/session", {}, "", standalone_->admin()).body), admin);
}

TEST_F(PageDoorTest, WrongKeysGetNoCookie) {
  for (const std::string& key :
       {std::string("esc_0123456789abcdef_") + std::string(64, '8'), std::string("nonsense"),
        std::string("a; Domain=evil"), std::string(5000, 'a'), std::string()}) {
    const HttpAnswer answer = Send("POST", "/ui/session", {kCsrf}, json({{"key", key}}).dump());
    EXPECT_GE(answer.status, 400) << key;
    EXPECT_EQ(answer.Header("set-cookie"), "");
    if (key.empty()) continue;
    EXPECT_THAT(answer.body, Not(HasSubstr(key)));
  }
  EXPECT_EQ(Send("POST", "/ui/session", {kCsrf}, "no json").status, 400);
  EXPECT_EQ(Send("PUT", "/ui/session", {kCsrf}).status, 405);
}

TEST_F(PageDoorTest, NoCacheKeepsWhatTheApiAnswers) {
  const std::string cookie = SignIn(AdminKey());
  const std::string schedules = "/v1/tenants/default/schedules";
  const std::string ingest = "/v1/tenants/default/events:ingest";
  for (const auto& [answer, status] : {
           std::pair{Send("GET", schedules, {{"Cookie", cookie}}), 200},
           std::pair{Send("GET", schedules + "/none", {{"Cookie", cookie}}), 404},
           std::pair{Send("GET", schedules, {{"Cookie", "escapement=none"}}), 401},
           std::pair{Send("POST", schedules, {{"Cookie", cookie}}), 403},
           std::pair{Send("POST", schedules, {{"Cookie", cookie}, kCsrf}, "{"), 400},
           std::pair{Send("POST", ingest, {{"Cookie", cookie}, kCsrf}, "{}"), 200},
           std::pair{Send("POST", ingest, {{"Cookie", cookie}}, "{}"), 403},
           std::pair{Send("GET", "/ui/session", {{"Cookie", cookie}}), 200},
           std::pair{Send("GET", "/ui/session", {{"Cookie", "escapement=none"}}), 401},
       }) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.Header("cache-control"), "no-store") << status;
    EXPECT_EQ(answer.Header("x-content-type-options"), "nosniff") << status;
  }
}

// With a process of its own, since the address must wait afterwards.
TEST_F(PageDoorTest, FailedSignInsAreAuditedAndThenMustWait) {
  SecuredStandalone standalone("sign-in");
  ASSERT_TRUE(standalone.Start().ok());
  const auto sign_in = [&](const std::string& key) {
    return standalone.Http({.method = "POST",
                            .path = "/ui/session",
                            .headers = {kCsrf},
                            .body = json({{"key", key}}).dump()},
                           "");
  };
  EXPECT_EQ(sign_in(AdminKey()).status, 200);
  const std::string wrong = AdminKey().substr(0, AdminKey().size() - 1) + "8";
  HttpAnswer answer = sign_in(wrong);
  for (int failures = 1; answer.status == 401 && failures < 100; ++failures)
    answer = sign_in(wrong);
  EXPECT_EQ(answer.status, 429) << answer.body;
  EXPECT_EQ(Reason(answer), "TOO_MANY_FAILURES");
  EXPECT_NE(answer.Header("retry-after"), "");
  EXPECT_EQ(sign_in(AdminKey()).status, 429) << "right and wrong keys must not be told apart";
  EXPECT_EQ(standalone.Http({.path = "/v1/tenants"}, standalone.admin()).status, 200);

  const std::string http = standalone.platform().http_address("standalone");
  const auto counted = [&http](const std::string& code) {
    return integration::MetricOf(http, absl::StrCat("escapement_rpc_handled_total{code=\"", code,
                                                    "\",method=\"ui/SignIn\"}"));
  };
  EXPECT_EQ(counted("OK"), 1);
  EXPECT_GE(counted("UNAUTHENTICATED"), 1);
  EXPECT_GE(counted("RESOURCE_EXHAUSTED"), 2);
  v1::ListAuditEntriesRequest list;
  list.set_parent("tenants/-");
  list.set_filter("method = SignIn AND result = UNAUTHENTICATED");
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  absl::StatusOr<v1::ListAuditEntriesResponse> entries;
  do {
    entries = standalone.Call<v1::ListAuditEntriesResponse>("ListAuditEntries", list);
    ASSERT_TRUE(entries.ok()) << entries.status();
  } while (entries->audit_entries().empty() && absl::Now() < deadline);
  ASSERT_FALSE(entries->audit_entries().empty());
  EXPECT_EQ(entries->audit_entries(0).principal(), "unknown");
  EXPECT_EQ(entries->audit_entries(0).reason(), "CREDENTIAL_INVALID");
  EXPECT_THAT(entries->audit_entries(0).source(), StartsWith("127.0.0.1:"));
}

TEST_F(PageDoorTest, SignOutEndsBothCookies) {
  const HttpAnswer answer = Send("DELETE", "/ui/session", {kCsrf});
  EXPECT_EQ(answer.status, 200);
  std::vector<std::string> ended;
  for (const auto& [name, value] : answer.headers) {
    if (absl::EqualsIgnoreCase(name, "set-cookie")) ended.push_back(value);
  }
  ASSERT_EQ(ended.size(), 2u);
  for (const std::string& cookie : ended) EXPECT_THAT(cookie, HasSubstr("=; Path=/; HttpOnly"));
  EXPECT_THAT(ended[0], HasSubstr("Max-Age=0"));
}

TEST_F(PageDoorTest, RevokedKeyEndsTheSession) {
  v1::ApiKey key = standalone_->NewKey("tenants/default", Access::EDITOR);
  ASSERT_TRUE(standalone_->AwaitAnswer("Bearer " + key.secret(), "").ok());
  const std::string cookie = SignIn(key.secret());
  v1::RevokeKeyRequest revoke;
  revoke.set_name(key.name());
  ASSERT_TRUE(standalone_->Call<v1::ApiKey>("RevokeKey", revoke).ok());
  ASSERT_TRUE(standalone_->AwaitAnswer("Bearer " + key.secret(), "CREDENTIAL_REVOKED").ok());
  EXPECT_EQ(Send("GET", "/ui/session", {{"Cookie", cookie}}).status, 401);
  EXPECT_EQ(Send("GET", "/v1/tenants/default/schedules", {{"Cookie", cookie}}).status, 401);
}

TEST_F(PageDoorTest, OnlyCallersOfAllTenantsSeeThePlatform) {
  const v1::ApiKey key = standalone_->NewKey("tenants/default", Access::ADMIN);
  ASSERT_TRUE(standalone_->AwaitAnswer("Bearer " + key.secret(), "").ok());
  EXPECT_EQ(Reason(Send("GET", "/ui/platform", {{"Cookie", SignIn(key.secret())}})),
            "NEEDS_ALL_TENANTS");
  EXPECT_EQ(Send("GET", "/ui/platform").status, 401);
  const json platform =
      json::parse(Send("GET", "/ui/platform", {{"Cookie", SignIn(AdminKey())}}).body);
  for (const char* kind : {"partition", "queue_shard", "policy_shard"}) {
    ASSERT_TRUE(platform["leases"][kind].is_array()) << platform;
    EXPECT_TRUE(platform["members"][kind].is_array()) << platform;
    EXPECT_GT(platform["leases"][kind].size(), 0u) << kind;
  }
}

}  // namespace page_door_test
}  // namespace escapement::doors
