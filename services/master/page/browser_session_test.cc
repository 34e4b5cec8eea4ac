#include "services/master/page/browser_session.h"

#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace browser_session_test {

using ::testing::HasSubstr;
using ::testing::Not;

using Headers = std::vector<std::pair<std::string, std::string>>;

HttpRequest Request(std::string method, Headers headers, bool encrypted = false) {
  HttpRequest request{.method = std::move(method), .path = "/v1/x", .query = ""};
  request.headers = std::move(headers);
  request.headers.emplace_back("Host", "ops.example.com:7411");
  request.encrypted = encrypted;
  return request;
}

std::string Reason(HttpRequest request, const std::vector<std::string>& origins = {}) {
  return ErrorReason(AdmitBrowser(origins, request));
}

TEST(BrowserSessionTest, CookieBecomesTheAuthorization) {
  HttpRequest request = Request("GET", {{"Cookie", "a=b; escapement=esc_1_2; c=d"}});
  EXPECT_TRUE(AdmitBrowser({}, request).ok());
  EXPECT_EQ(request.Header("authorization"), "Bearer esc_1_2");
}

TEST(BrowserSessionTest, AuthorizationHeaderGoesBeforeTheCookie) {
  HttpRequest request =
      Request("POST", {{"Cookie", "escapement=esc_1_2"}, {"Authorization", "Bearer other"}});
  EXPECT_TRUE(AdmitBrowser({}, request).ok());
  EXPECT_EQ(request.Header("authorization"), "Bearer other");
}

TEST(BrowserSessionTest, ChangeWithTheCookieNeedsTheHeader) {
  for (const char* method : {"POST", "PATCH", "DELETE", "PUT"}) {
    EXPECT_EQ(Reason(Request(method, {{"Cookie", "escapement=k"}})), "CSRF_HEADER_MISSING");
    EXPECT_EQ(Reason(Request(method, {{"Cookie", "escapement=k"}, {"X-Escapement-CSRF", "1"}})),
              "");
  }
}

TEST(BrowserSessionTest, CookieFromAnotherOriginIsRefused) {
  for (const char* site : {"cross-site", "same-site", "nonsense"}) {
    EXPECT_EQ(Reason(Request("GET", {{"Cookie", "escapement=k"}, {"Sec-Fetch-Site", site}})),
              "CROSS_ORIGIN");
  }
  for (const char* origin : {"https://evil.example", "http://ops.example.com:80", "null"}) {
    EXPECT_EQ(
        Reason(Request(
            "POST", {{"Cookie", "escapement=k"}, {"X-Escapement-CSRF", "1"}, {"Origin", origin}})),
        "CROSS_ORIGIN");
  }
  // Also if the operator lists the origin: it has its own credentials.
  EXPECT_EQ(Reason(Request("GET", {{"Cookie", "escapement=k"}, {"Origin", "https://a.example"}}),
                   {"https://a.example"}),
            "CROSS_ORIGIN");
}

TEST(BrowserSessionTest, OwnOriginIsAccepted) {
  EXPECT_EQ(Reason(Request("POST", {{"Cookie", "escapement=k"},
                                    {"X-Escapement-CSRF", "1"},
                                    {"Origin", "http://ops.example.com:7411"}})),
            "");
  EXPECT_EQ(Reason(Request("POST", {{"Cookie", "escapement=k"},
                                    {"X-Escapement-CSRF", "1"},
                                    {"Sec-Fetch-Site", "same-origin"}})),
            "");
}

TEST(BrowserSessionTest, ForeignPageMayNotChangeWithoutCredentials) {
  const Headers foreign = {{"Origin", "https://evil.example"}};
  EXPECT_EQ(Reason(Request("POST", foreign)), "CROSS_ORIGIN");
  EXPECT_EQ(Reason(Request("GET", foreign)), "");  // the browser shows it nothing
  EXPECT_EQ(Reason(Request("POST", foreign), {"https://evil.example"}), "");
  EXPECT_EQ(Reason(Request("POST", foreign), {"*"}), "");
  EXPECT_EQ(Reason(Request("POST", {})), "");  // curl
}

TEST(BrowserSessionTest, TlsCookieHasThePrefixAndIsSecure) {
  const HttpRequest tls = Request("POST", {}, true);
  const std::string cookie = BeginSessionCookie(tls, "esc_1_2");
  EXPECT_THAT(cookie, HasSubstr("__Host-escapement=esc_1_2;"));
  for (const char* part :
       {"; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"})
    EXPECT_THAT(cookie, HasSubstr(part));
  EXPECT_THAT(cookie, Not(HasSubstr("Domain")));
  const std::string proxied =
      BeginSessionCookie(Request("POST", {{"X-Forwarded-Proto", "https"}}), "k");
  EXPECT_THAT(proxied, HasSubstr("; Secure"));
  EXPECT_THAT(BeginSessionCookie(Request("POST", {}), "k"), Not(HasSubstr("Secure")));
}

TEST(BrowserSessionTest, TlsIgnoresTheCookieWithoutThePrefix) {
  EXPECT_EQ(SessionCredential(Request("GET", {{"Cookie", "escapement=planted"}}, true)),
            std::nullopt);
  EXPECT_EQ(SessionCredential(
                Request("GET", {{"Cookie", "escapement=planted; __Host-escapement=own"}}, true)),
            "own");
  EXPECT_EQ(SessionCredential(Request("GET", {{"Cookie", "escapement="}})), std::nullopt);
}

TEST(BrowserSessionTest, OnlyCredentialsFitIntoACookie) {
  EXPECT_TRUE(IsCookieValue("esc_0123_ab"));
  EXPECT_TRUE(IsCookieValue("eyJhbGciOi.J9-_.sig"));
  for (const char* bad : {"", "a b", "a;b", "a\r\nb", "a,b", "\xc3\xa4", "a\"b"})
    EXPECT_FALSE(IsCookieValue(bad)) << bad;
  EXPECT_FALSE(IsCookieValue(std::string(kSessionCredentialBytesMax + 1, 'a')));
}

TEST(BrowserSessionTest, SignInCookieComesBackWithARedirect) {
  const std::string cookie = BeginSignInCookie(Request("GET", {}, true), "sealed");
  EXPECT_THAT(cookie, HasSubstr("__Host-escapement-sign-in=sealed;"));
  for (const char* part : {"; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age=600"})
    EXPECT_THAT(cookie, HasSubstr(part));
  EXPECT_EQ(SignInCookie(Request("GET", {{"Cookie", "__Host-escapement-sign-in=own"}}, true)),
            "own");
  EXPECT_EQ(SignInCookie(Request("GET", {{"Cookie", "escapement-sign-in=planted"}}, true)),
            std::nullopt);
  EXPECT_EQ(SignInCookie(Request("GET", {{"Cookie", "escapement-sign-in=own"}})), "own");
  // It is not the session's.
  EXPECT_EQ(SessionCredential(Request("GET", {{"Cookie", "escapement-sign-in=own"}})),
            std::nullopt);
  for (const std::string& end : EndSignInCookies()) EXPECT_THAT(end, HasSubstr("Max-Age=0"));
}

TEST(BrowserSessionTest, QueryGivesOneValueOfAName) {
  EXPECT_EQ(QueryValue("state=a%2Fb+c&code=x&codes=y", "state"), "a/b c");
  EXPECT_EQ(QueryValue("state=a%2Fb+c&code=x&codes=y", "code"), "x");
  for (const char* query : {"", "b=1", "aa=1", "a", "a=1&a=2", "a=%zz", "a="})
    EXPECT_EQ(QueryValue(query, "a"), "") << query;
}

TEST(BrowserSessionTest, SignInReturnsOnlyToThePage) {
  for (const char* view : {"/ui", "/ui/", "/ui/team-a/schedules/s?state=PAUSED&x=//y", "/ui?a=..",
                           "/ui/t/events/a%2Fb"})
    EXPECT_EQ(ReturnPath(view), view);
  for (const char* other : {"",
                            "/",
                            "ui",
                            "//evil",
                            "///evil",
                            "/\\evil",
                            "\\\\evil",
                            "https://evil",
                            "//evil/ui",
                            "https:/ui",
                            "/uix",
                            "/ui\\evil",
                            "/ui/\\evil",
                            "/v1/tenants",
                            "/ui/../v1",
                            "/ui/..",
                            "/ui/%2e%2E/v1",
                            "/ui/.%2e",
                            "/ui/a/../../..//evil",
                            "javascript:alert(1)",
                            "/ui#x",
                            "/ui/a\r\nSet-Cookie: b",
                            "/ui/a b",
                            "/ui/\xc3\xa4",
                            "/ui@evil",
                            "%2F%2Fevil",
                            " /ui"})
    EXPECT_EQ(ReturnPath(other), "/ui") << other;
  EXPECT_EQ(ReturnPath("/ui/" + std::string(kReturnPathBytesMax, 'a')), "/ui");
}

constexpr absl::Time kStart = absl::UnixEpoch();

void Fail(SignInLimit& limit, const std::string& peer) {
  for (uint64_t i = 0; i < SignInLimit::kFailuresAtOnce; ++i) limit.NoteFailure(peer, kStart);
}

TEST(SignInLimitTest, AddressMustWaitAfterFailures) {
  SignInLimit limit;
  for (uint64_t i = 0; i < SignInLimit::kFailuresAtOnce; ++i) {
    EXPECT_EQ(limit.WaitOf("192.0.2.1:1", kStart), absl::ZeroDuration());
    limit.NoteFailure(absl::StrCat("192.0.2.1:", i), kStart);
  }
  EXPECT_EQ(limit.WaitOf("192.0.2.1:1", kStart), SignInLimit::kFailureEvery);
  EXPECT_EQ(limit.WaitOf("192.0.2.2:1", kStart), absl::ZeroDuration());
  const absl::Time later = kStart + SignInLimit::kFailureEvery;
  EXPECT_EQ(limit.WaitOf("192.0.2.1:1", later), absl::ZeroDuration());
  limit.NoteFailure("192.0.2.1:1", later);
  EXPECT_EQ(limit.WaitOf("192.0.2.1:1", later), SignInLimit::kFailureEvery);
}

TEST(SignInLimitTest, NetworkOfOneHostCountsAsOneAddress) {
  SignInLimit limit;
  Fail(limit, "[2001:db8:0:1::1]:1");
  EXPECT_GT(limit.WaitOf("[2001:db8:0:1:2:3:4:5]:1", kStart), absl::ZeroDuration());
  EXPECT_EQ(limit.WaitOf("[2001:db8:0:2::1]:1", kStart), absl::ZeroDuration());
  Fail(limit, "[::ffff:192.0.2.1]:1");
  EXPECT_EQ(limit.WaitOf("[::ffff:192.0.2.2]:1", kStart), absl::ZeroDuration());
}

TEST(SignInLimitTest, ManyAddressesForgetTheOneThatFailedLeast) {
  SignInLimit limit;
  Fail(limit, "192.0.2.1:1");
  for (size_t i = 0; i < SignInLimit::kAddressesMax + 10; ++i)
    limit.NoteFailure(absl::StrCat("host", i, ":1"), kStart);
  EXPECT_EQ(limit.addresses(), SignInLimit::kAddressesMax);
  EXPECT_GT(limit.WaitOf("192.0.2.1:1", kStart), absl::ZeroDuration());
}

}  // namespace browser_session_test
}  // namespace escapement::master
