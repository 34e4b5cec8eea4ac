#include "common/auth/issuer_config.h"

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::auth {
namespace issuer_config_test {

using Json = nlohmann::json;
using Access = v1::Access;

constexpr char kExample[] = R"(
issuers:
  - issuer: https://login.example.com
    audience: escapement
    jwks_url: https://login.example.com/keys
    tenant_claim: [org, id]
    role_claim: [groups]
    roles: {schedulers: editor, sre: admin}
  - issuer: https://kubernetes.default.svc.cluster.local
    audience: escapement
    jwks_file: /etc/escapement/cluster-keys.json
    subjects:
      system:serviceaccount:jobs:nightly: {tenant: jobs, role: operator}
      system:serviceaccount:platform:handler: {tenant: "*", role: service}
  - issuer: accounts
    audience: escapement
    jwks_url: https://accounts.example.com/keys
    jwks_ca: /etc/ca.pem
    tenant: "*"
    role: viewer
)";

std::string ErrorOf(const std::string& text) {
  const auto config = ParseIssuerConfig(text, "f");
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << text;
  return std::string(config.status().message());
}

// The error about an issuer with these lines.
std::string IssuerError(const std::string& lines) {
  return ErrorOf(absl::StrCat("issuers:\n- issuer: i\n  audience: a\n  jwks_file: k\n  ",
                              absl::StrReplaceAll(lines, {{"\n", "\n  "}}), "\n"));
}

std::vector<IssuerConfig> Example() {
  auto config = ParseIssuerConfig(kExample, "f");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(IssuerConfig, ReadsAllFields) {
  const auto issuers = Example();
  ASSERT_EQ(issuers.size(), 3u);
  EXPECT_EQ(issuers[0].issuer, "https://login.example.com");
  EXPECT_EQ(issuers[0].audience, "escapement");
  EXPECT_EQ(issuers[0].jwks_url, "https://login.example.com/keys");
  EXPECT_EQ(issuers[1].jwks_file, "/etc/escapement/cluster-keys.json");
  EXPECT_EQ(issuers[2].jwks_ca, "/etc/ca.pem");
}

TEST(IssuerConfig, ClaimsGiveTenantAndTheHighestRole) {
  const auto grant = [issuer = Example()[0]](const Json& claims) {
    return issuer.GrantOf("alice", claims);
  };
  const Json org = {{"id", "acme"}};
  EXPECT_EQ(grant({{"org", org}, {"groups", "schedulers"}}), (Grant{"acme", Access::EDITOR}));
  EXPECT_EQ(grant({{"org", org}, {"groups", {"sre", "x", "schedulers", 1}}}),
            (Grant{"acme", Access::ADMIN}));
  EXPECT_EQ(grant({{"org", org}, {"groups", {"x"}}}), std::nullopt);
  EXPECT_EQ(grant({{"org", org}, {"groups", {{"sre", true}}}}), std::nullopt);
  EXPECT_EQ(grant({{"org", org}}), std::nullopt);
  EXPECT_EQ(grant({{"org", "acme"}, {"groups", "sre"}}), std::nullopt);
}

TEST(IssuerConfig, AClaimNeverNamesAllTenants) {
  const auto issuer = Example()[0];
  for (const Json& id : {Json("*"), Json("-"), Json(""), Json("-a"), Json("a/b"), Json("A"),
                         Json(std::string(64, 'a')), Json(), Json(1), Json::array({"a"})}) {
    const Json claims = {{"org", {{"id", id}}}, {"groups", "sre"}};
    EXPECT_EQ(issuer.GrantOf("alice", claims), std::nullopt) << id;
  }
}

TEST(IssuerConfig, SubjectsGoBeforeOtherRules) {
  const auto kubernetes = Example()[1];
  EXPECT_EQ(kubernetes.GrantOf("system:serviceaccount:jobs:nightly", Json::object()),
            (Grant{"jobs", Access::OPERATOR}));
  EXPECT_EQ(kubernetes.GrantOf("system:serviceaccount:platform:handler", Json::object()),
            (Grant{"", Access::SERVICE}));
  EXPECT_EQ(kubernetes.GrantOf("system:serviceaccount:jobs:other", Json::object()), std::nullopt);
  IssuerConfig accounts = Example()[2];
  EXPECT_EQ(accounts.GrantOf("alice", Json::object()), (Grant{"", Access::VIEWER}));
  accounts.subjects["alice"] = {"a", Access::ADMIN};
  EXPECT_EQ(accounts.GrantOf("alice", Json::object()), (Grant{"a", Access::ADMIN}));
}

TEST(IssuerConfig, NamesThePlaceOfAnError) {
  EXPECT_EQ(IssuerError("tenant: t\nrole: boss"),
            "f:6: issuers[0].role: must be viewer, operator, editor, admin or service");
  EXPECT_EQ(IssuerError("tenant: t\nrole: admin\ncolour: red").substr(0, 41),
            "f:7: issuers[0]: unknown field 'colour'; ");
  EXPECT_EQ(IssuerError("subjects:\n  alice: {tenant: t, role: x}").substr(0, 36),
            "f:6: issuers[0].subjects[alice].role");
  EXPECT_EQ(ErrorOf("issuers:\n- audience: a"), "f:2: issuers[0].issuer: is missing");
  EXPECT_EQ(ErrorOf("{"), "f:1: end of map flow not found");
}

TEST(IssuerConfig, RefusesASecondDocument) {
  EXPECT_EQ(ErrorOf(absl::StrCat(kExample, "---\n", kExample)),
            "f: has 2 documents; only one is allowed");
}

TEST(IssuerConfig, RefusesDocumentsOfOtherForms) {
  for (const char* text : {"", "[]", "x", "issuers:", "issuers: []", "issuers: {}", "issuers: [1]",
                           "other: 1", "issuers: &a [*a]", "? [a]\n: b", "issuers: !!x\n"})
    ErrorOf(text);
}

TEST(IssuerConfig, RefusesIncompleteAndContradictoryRules) {
  for (const char* lines : {"",
                            "tenant: t",
                            "role: admin",
                            "tenant: t\ntenant_claim: [a]\nrole: admin",
                            "tenant: t\nrole: admin\nrole_claim: [a]\nroles: {a: admin}",
                            "tenant: t\nrole: admin\nroles: {a: admin}",
                            "tenant: t\nrole_claim: [a]",
                            "tenant: t\nrole_claim: [a]\nroles: {}",
                            "tenant: t\nrole_claim: [a]\nroles: {a: b}",
                            "tenant: t\nroles: {a: admin}",
                            "subjects: {}",
                            "subjects: {a: {tenant: t}}",
                            "subjects: {a: {role: admin}}",
                            "subjects: {\"\": {tenant: t, role: admin}}",
                            "subjects: {a: {tenant: t, role: admin, more: 1}}",
                            "subjects: [a]",
                            "subjects: {a: {tenant: t, role: admin}}\ntenant: t",
                            "role: admin\ntenant: T",
                            "role: admin\ntenant: -",
                            "role: admin\ntenant: [t]",
                            "role: ADMIN\ntenant: t",
                            "role: role_unspecified\ntenant: t",
                            "role: admin\ntenant_claim: a",
                            "role: admin\ntenant_claim: []",
                            "role: admin\ntenant_claim: [a, [b]]",
                            "role: admin\ntenant_claim: [a,a,a,a,a,a,a,a,a]",
                            "role: admin\ntenant: t\nrole: admin",
                            "role: admin\ntenant: t\njwks_url: https://a/",
                            "role: admin\ntenant: t\njwks_ca: f"}) {
    IssuerError(lines);
  }
}

TEST(IssuerConfig, RoleServiceNeedsAllTenants) {
  for (const char* lines : {"tenant: t\nrole: service", "tenant_claim: [a]\nrole: service",
                            "tenant: t\nrole_claim: [a]\nroles: {a: service}",
                            "subjects: {a: {tenant: t, role: service}}"}) {
    EXPECT_TRUE(absl::StrContains(IssuerError(lines), "the role service needs the tenant \"*\""));
  }
}

TEST(IssuerConfig, RefusesIssuersWhosePrincipalsCouldBeEqual) {
  const auto two = [](const char* first, const char* second) {
    std::string text = "issuers:\n";
    for (const char* issuer : {first, second}) {
      absl::StrAppend(&text, "- issuer: ", issuer,
                      "\n  audience: a\n  jwks_file: k\n  tenant: t\n  role: admin\n");
    }
    return ParseIssuerConfig(text, "f").status().ok();
  };
  EXPECT_TRUE(two("https://a/x", "https://a/y"));
  EXPECT_TRUE(two("https://a", "https://a2"));
  EXPECT_FALSE(two("https://a", "https://a"));
  EXPECT_FALSE(two("https://a", "https://a/x"));
  EXPECT_FALSE(two("https://a/x/y", "https://a/x"));
}

TEST(IssuerConfig, UrlsAreHttpsOrOnLoopback) {
  const auto accepted = [](const std::string& url) {
    return ParseIssuerConfig(
               absl::StrCat(
                   "issuers: [{issuer: i, audience: a, tenant: t, role: admin, jwks_url: '", url,
                   "'}]"),
               "f")
        .ok();
  };
  for (const char* url : {"https://a.example/keys", "http://localhost:1/", "http://127.0.0.1/k",
                          "http://[::1]:80/", "https://10.0.0.1/"})
    EXPECT_TRUE(accepted(url)) << url;
  for (const char* url :
       {"http://a.example/", "http://127.0.0.1.example/", "http://localhost.example/",
        "https://user:pass@a/", "file:///etc/passwd", "ftp://a/", "a.example/keys", "https://",
        "https://a/#x", "http://127.0.0.1@a.example/", "gopher://127.0.0.1/", "//a",
        "http://0.0.0.0/"})
    EXPECT_FALSE(accepted(url)) << url;
}

// The issuers of a file with this issuer and these lines of its sign_in.
absl::StatusOr<std::vector<IssuerConfig>> WithSignIn(const std::string& issuer,
                                                     const std::string& lines) {
  return ParseIssuerConfig(
      absl::StrCat("issuers:\n- issuer: '", issuer,
                   "'\n  audience: a\n  jwks_file: k\n  tenant: t\n  role: admin\n  sign_in:\n    ",
                   absl::StrReplaceAll(lines, {{"\n", "\n    "}}), "\n"),
      "f");
}

TEST(IssuerConfig, ReadsHowPeopleSignIn) {
  EXPECT_FALSE(Example()[0].sign_in.has_value());
  const auto issuers = WithSignIn(
      "https://login.example/realm",
      "client_id: page\nclient_secret_file: /s\norigin: https://ops.example:7411\nname: Example\n"
      "scopes: [openid, offline_access]\nparameters: {prompt: consent, access_type: offline}");
  ASSERT_TRUE(issuers.ok()) << issuers.status();
  const SignInConfig& sign_in = *(*issuers)[0].sign_in;
  EXPECT_EQ(sign_in.client_id, "page");
  EXPECT_EQ(sign_in.client_secret_file, "/s");
  EXPECT_EQ(sign_in.origin, "https://ops.example:7411");
  EXPECT_EQ(sign_in.name, "Example");
  EXPECT_EQ(sign_in.scopes, (std::vector<std::string>{"openid", "offline_access"}));
  EXPECT_EQ(sign_in.parameters.at("access_type"), "offline");
  EXPECT_EQ(sign_in.parameters.size(), 2u);
}

TEST(IssuerConfig, SignInNeedsSafeUrls) {
  const auto accepted = [](const std::string& issuer, const std::string& origin) {
    return WithSignIn(issuer, absl::StrCat("client_id: page\norigin: '", origin, "'")).ok();
  };
  for (const char* url : {"https://a.example", "http://localhost:7411", "http://127.0.0.1"}) {
    EXPECT_TRUE(accepted(url, "https://ops.example")) << url;
    EXPECT_TRUE(accepted("https://a.example", url)) << url;
  }
  EXPECT_TRUE(accepted("https://a.example/realm/", "https://ops.example"));
  for (const char* url : {"http://a.example", "a", "ftp://a.example", "https://u:p@a.example",
                          "https://a.example/?x", "https://a.example#x"}) {
    EXPECT_FALSE(accepted(url, "https://ops.example")) << url;
    EXPECT_FALSE(accepted("https://a.example", url)) << url;
  }
  EXPECT_FALSE(accepted("https://a.example", "https://ops.example/"));
  EXPECT_FALSE(accepted("https://a.example", "https://ops.example/ui"));
}

TEST(IssuerConfig, RefusesOtherFieldsOfASignIn) {
  for (const char* lines :
       {"origin: https://o", "client_id: page", "client_id: page\norigin: https://o\ncolour: red",
        "client_id: page\norigin: https://o\nscopes: openid",
        "client_id: page\norigin: https://o\nscopes: [a b]",
        "client_id: page\norigin: https://o\nparameters: [a]",
        "client_id: page\norigin: https://o\nparameters: {state: x}",
        "client_id: page\norigin: https://o\nparameters: {redirect_uri: 'https://evil'}",
        "client_id: page\norigin: https://o\nparameters: {request_uri: 'https://evil'}",
        "client_id: page\norigin: https://o\nparameters: {a: }"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WithSignIn("https://i", lines).status())) << lines;
  }
}

TEST(IssuerConfig, LoadsAFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/issuers.yaml");
  std::ofstream(path) << kExample;
  EXPECT_EQ(LoadIssuerConfig(path)->size(), 3u);
  EXPECT_FALSE(LoadIssuerConfig(path + ".missing").ok());
}

}  // namespace issuer_config_test
}  // namespace escapement::auth
