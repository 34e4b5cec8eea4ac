#include "tools/escctl/commands/http_fetch.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http/http_server.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::escctl {
namespace http_fetch_test {

using ::testing::HasSubstr;

// A server with one page of many bytes.
std::unique_ptr<HttpServer> StartServer(std::shared_ptr<TlsFiles> tls) {
  HttpServer::Options options;
  options.tls = std::move(tls);
  auto server = std::make_unique<HttpServer>(std::move(options));
  server->RouteSync("GET", "/metrics", [](const HttpRequest&) {
    return HttpResponse{.body = std::string(300'000, 'm')};
  });
  EXPECT_TRUE(server->Start().ok());
  return server;
}

absl::StatusOr<std::string> Fetch(const std::string& scheme, const HttpServer& server,
                                  const PeerTls& tls, const std::string& host = "127.0.0.1") {
  return HttpFetch(absl::StrCat(scheme, "://", host, ":", server.port()), tls, absl::Seconds(30));
}

TEST(HttpFetchTest, ReadsAWholePageWithoutTls) {
  const auto server = StartServer(nullptr);
  EXPECT_EQ(Fetch("http", *server, {.ca = {}})->size(), 300'000u);
  EXPECT_THAT(
      HttpFetch(absl::StrCat("http://127.0.0.1:", server->port(), "/none"), {}, absl::Seconds(30))
          .status()
          .message(),
      HasSubstr("404"));
}

TEST(HttpFetchTest, ReadsAWholePageWithTls) {
  const testing::TlsTestFiles files;
  const auto server =
      StartServer(*TlsFiles::Load({.cert = files.server().cert, .key = files.server().key}));
  EXPECT_EQ(Fetch("https", *server, files.WithoutCertificate())->size(), 300'000u);
  EXPECT_EQ(Fetch("https", *server, files.WithCertificate(), "localhost")->size(), 300'000u);
}

TEST(HttpFetchTest, SaysWhyTlsIsNotProven) {
  const testing::TlsTestFiles files;
  const auto server =
      StartServer(*TlsFiles::Load({.cert = files.server().cert, .key = files.server().key}));
  const std::string other = files.folder() + "/other.pem";
  testing::WriteFile(other, testing::TestCa().pem());
  const auto refused = Fetch("https", *server, {.ca = other}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("TLS: its certificate is not trusted: "));
  // The certificate is for localhost and 127.0.0.1.
  EXPECT_THAT(Fetch("https", *server, files.WithoutCertificate(), "127.0.0.2").status().message(),
              HasSubstr("127.0.0.2"));
  EXPECT_THAT(Fetch("http", *server, files.WithoutCertificate()).status().message(),
              HasSubstr("ends the connection without an answer"));
  const auto plain = StartServer(nullptr);
  EXPECT_THAT(Fetch("https", *plain, files.WithoutCertificate()).status().message(),
              HasSubstr("TLS: "));
}

// A port of this machine that nobody else gets. Without `listen` it refuses connections; with it
// the kernel takes them, and nobody answers.
class SilentPort {
 public:
  explicit SilentPort(bool listens) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    EXPECT_EQ(listens ? listen(socket_, 8) : 0, 0);
    authority_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  const std::string& authority() const { return authority_; }

 private:
  const int socket_;
  std::string authority_;
};

TEST(HttpFetchTest, SaysWhatIsInTheWay) {
  const testing::TlsTestFiles files;
  const auto problem = [&](const std::string& url) {
    return std::string(
        HttpFetch(url, files.WithoutCertificate(), absl::Milliseconds(100)).status().message());
  };
  const SilentPort closed(/*listens=*/false);
  const SilentPort silent(/*listens=*/true);
  for (const std::string scheme : {"http://", "https://"}) {
    EXPECT_THAT(problem(scheme + closed.authority()),
                HasSubstr(closed.authority() + " refuses connections"));
    EXPECT_THAT(problem(scheme + silent.authority()), HasSubstr("does not answer in time"));
    // No name has a part of so many characters, so none is looked up.
    EXPECT_THAT(problem(scheme + std::string(64, 'x') + ".invalid:1"),
                HasSubstr("cannot be reached: its name is not found: "));
  }
}

TEST(HttpFetchTest, RefusesUrlsAndFilesThatCannotBeUsed) {
  for (const char* url : {"127.0.0.1:1", "http://127.0.0.1", "http://:1", "ftp://127.0.0.1:1"}) {
    EXPECT_EQ(HttpFetch(url, {}, absl::Seconds(1)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
  EXPECT_THAT(HttpFetch("https://127.0.0.1:1", {}, absl::Seconds(1)).status().message(),
              HasSubstr("needs --tls-ca"));
  const auto server = StartServer(nullptr);
  const auto unread = Fetch("https", *server, {.ca = "/nonexistent"}).status();
  EXPECT_EQ(unread.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unread.message(), HasSubstr("/nonexistent: cannot be read"));
}

}  // namespace http_fetch_test
}  // namespace escapement::escctl
