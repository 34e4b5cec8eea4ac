#include <atomic>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/auth/jwks.h"
#include "common/auth/jwks_source.h"
#include "common/http/http_server.h"
#include "common/runtime/system_runtime.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/tls_files.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace jwks_fetch_test {

using ::escapement::testing::TestCa;
using ::escapement::testing::WriteFile;
using ::escapement::testing::WriteIdentity;

HttpHandler Answer(HttpResponse response) {
  return [response](HttpRequest, HttpResponder respond) { respond(response); };
}

class JwksFetch : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Fetch(const std::string& url, const std::string& ca = "") {
    return FetchFromIssuer({.url = url, .ca = ca}, stopping_);
  }

  std::atomic<bool> stopping_ = false;
};

// A server with answers of several kinds.
class PlainServer {
 public:
  PlainServer() : server_({.listen = "127.0.0.1:0"}) {
    server_.Route("GET", "/keys", Answer({.body = "{}"}));
    server_.Route("GET", "/largest", Answer({.body = std::string(kJwksBytesMax, 'x')}));
    server_.Route("GET", "/larger", Answer({.body = std::string(kJwksBytesMax + 1, 'x')}));
    server_.Route("", "/moved",
                  Answer({.status = 302, .headers = {{"Location", "/target"}}, .body = "{}"}));
    server_.Route("", "/target", [this](HttpRequest, const HttpResponder& respond) {
      ++moves_followed_;
      respond({.body = "{}"});
    });
    for (const int status : {400, 401, 403})
      server_.Route("", absl::StrCat("/", status), Answer({.status = status}));
    server_.Route("", "/echo", [](const HttpRequest& request, const HttpResponder& respond) {
      respond({.body = absl::StrCat(request.method, " ", request.Header("content-type"), " ",
                                    request.Header("authorization"), " ", request.body)});
    });
    server_.Route("GET", "/empty", Answer({.status = 204}));
    server_.Route("GET", "/silent",
                  [this](HttpRequest, HttpResponder respond) { held_ = respond; });
    EXPECT_TRUE(server_.Start().ok());
  }
  ~PlainServer() { server_.Shutdown(); }

  std::string Url(const std::string& path) {
    return absl::StrCat("http://", server_.address(), path);
  }
  int moves_followed() const { return moves_followed_; }

 private:
  std::atomic<int> moves_followed_ = 0;
  HttpResponder held_;
  HttpServer server_;
};

TEST_F(JwksFetch, ReturnsTheBody) {
  PlainServer server;
  EXPECT_EQ(*Fetch(server.Url("/keys")), "{}");
  EXPECT_EQ(Fetch(server.Url("/largest"))->size(), kJwksBytesMax);
}

TEST_F(JwksFetch, SendsAFormWithAPassword) {
  PlainServer server;
  const auto answer = FetchFromIssuer(
      {.url = server.Url("/echo"), .form = "a=b&c=d", .user_password = "page:secret"}, stopping_);
  EXPECT_EQ(*answer, "POST application/x-www-form-urlencoded Basic cGFnZTpzZWNyZXQ= a=b&c=d");
  for (const auto& [path, code] : {std::pair("/400", absl::StatusCode::kUnauthenticated),
                                   std::pair("/401", absl::StatusCode::kUnauthenticated),
                                   std::pair("/403", absl::StatusCode::kUnavailable),
                                   std::pair("/moved", absl::StatusCode::kUnavailable)}) {
    EXPECT_EQ(FetchFromIssuer({.url = server.Url(path), .form = "a=b"}, stopping_).status().code(),
              code)
        << path;
  }
  EXPECT_TRUE(absl::IsUnavailable(Fetch(server.Url("/400")).status()));
  EXPECT_EQ(server.moves_followed(), 0);
}

TEST_F(JwksFetch, AcceptsOnlyStatus200) {
  PlainServer server;
  EXPECT_EQ(Fetch(server.Url("/moved")).status().message(), "the answer has the status 302");
  EXPECT_EQ(Fetch(server.Url("/nothing")).status().message(), "the answer has the status 404");
  EXPECT_EQ(Fetch(server.Url("/empty")).status().message(), "the answer has the status 204");
}

TEST_F(JwksFetch, LimitsTheSize) {
  PlainServer server;
  EXPECT_EQ(Fetch(server.Url("/larger")).status().message(), "the answer has more than 1 MiB");
}

TEST_F(JwksFetch, EndsWhenTheProcessStops) {
  PlainServer server;
  stopping_ = true;
  EXPECT_TRUE(absl::IsCancelled(Fetch(server.Url("/silent")).status()));
}

TEST_F(JwksFetch, GivesUpAfterFiveSeconds) {
  PlainServer server;
  // Not the wall clock, which may be slewed while curl waits.
  SystemRuntime runtime;
  const absl::Duration begin = runtime.clock().Elapsed();
  EXPECT_TRUE(absl::IsUnavailable(Fetch(server.Url("/silent")).status()));
  EXPECT_GE(runtime.clock().Elapsed() - begin, kIssuerFetchTimeout);
  EXPECT_LE(runtime.clock().Elapsed() - begin, kIssuerFetchTimeout + absl::Seconds(5));
}

TEST_F(JwksFetch, IgnoresProxiesOfTheEnvironment) {
  PlainServer server;
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
  EXPECT_TRUE(Fetch(server.Url("/keys")).ok());
  unsetenv("http_proxy");
  unsetenv("ALL_PROXY");
}

TEST_F(JwksFetch, RefusesOtherUrlsWithoutACall) {
  for (const char* url : {"http://issuer.example/", "file:///etc/passwd", "https://u:p@a/"})
    EXPECT_TRUE(absl::IsInvalidArgument(Fetch(url).status())) << url;
}

TEST_F(JwksFetch, BelievesOnlyTheGivenAuthority) {
  const std::string folder = ::testing::TempDir();
  const TestCa ca;
  const TestCa other;
  WriteFile(folder + "/ca.pem", ca.pem());
  WriteFile(folder + "/other.pem", other.pem());
  const auto files = WriteIdentity(ca.Issue(7), folder, "server");
  auto tls = TlsFiles::Load({.cert = files.cert, .key = files.key});
  ASSERT_TRUE(tls.ok()) << tls.status();
  HttpServer server({.listen = "127.0.0.1:0", .tls = *tls});
  server.Route("GET", "/keys", Answer({.body = "{}"}));
  ASSERT_TRUE(server.Start().ok());
  const std::string url = absl::StrCat("https://", server.address(), "/keys");
  EXPECT_EQ(*Fetch(url, folder + "/ca.pem"), "{}");
  EXPECT_TRUE(absl::IsUnavailable(Fetch(url, folder + "/other.pem").status()));
  EXPECT_TRUE(absl::IsUnavailable(Fetch(url).status()));
  server.Shutdown();
}

}  // namespace jwks_fetch_test
}  // namespace escapement::auth
