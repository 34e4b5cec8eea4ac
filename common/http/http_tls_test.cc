// TLS of HttpServer. http_server_test has everything that does not depend on it.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/http/http_server.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_client.h"
#include "common/tls/testing/tls_test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace http_tls_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TlsClient;

constexpr char kWho[] = "GET /who HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

class HttpTlsTest : public ::testing::Test {
 protected:
  void Start(HttpServer::Options options, const std::string& client_ca = {},
             const std::string& service_ca = {}) {
    auto tls = TlsFiles::Load({.cert = files_.server().cert,
                               .key = files_.server().key,
                               .ca = client_ca,
                               .service_ca = service_ca});
    ASSERT_TRUE(tls.ok()) << tls.status();
    options.tls = *std::move(tls);
    server_ = std::make_unique<HttpServer>(std::move(options));
    server_->RouteSync("GET", "/who", [](const HttpRequest& request) {
      return HttpResponse{
          .body = absl::StrCat(request.peer, "|", absl::StrJoin(request.client_names, " "), "|")};
    });
    server_->RouteSync("POST", "/size", [](const HttpRequest& request) {
      return HttpResponse{.body = absl::StrCat(request.body.size(), " bytes")};
    });
    server_->RouteStream("POST", "/", ":echo", [](HttpRequest, std::shared_ptr<HttpStream> s) {
      s->Begin({.status = 207});
      Echo(std::move(s));
    });
    ASSERT_TRUE(server_->Start().ok());
  }
  static void Echo(std::shared_ptr<HttpStream> stream) {
    HttpStream* const raw = stream.get();
    raw->Read([stream = std::move(stream)](absl::StatusOr<std::string> piece) {
      if (!piece.ok()) return;
      if (piece->empty()) return stream->End();
      stream->Write(*std::move(piece), [stream](absl::Status status) {
        if (status.ok()) Echo(stream);
      });
    });
  }

  std::unique_ptr<TlsClient> Connect(const PeerTls& tls) {
    auto client = TlsClient::Connect(server_->port(), tls);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  std::string Ask(const PeerTls& tls, const std::string& request) {
    const auto client = Connect(tls);
    client->Write(request);
    return client->ReadToEnd();
  }
  boost::asio::ip::tcp::socket ConnectTcp() {
    boost::asio::ip::tcp::socket socket(io_);
    socket.connect(
        {boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    return socket;
  }
  static std::string ReadToEnd(boost::asio::ip::tcp::socket& socket) {
    std::string answer;
    boost::system::error_code error;
    boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
    return answer;
  }
  PeerTls WithoutCertificate() const { return files_.WithoutCertificate(); }
  PeerTls WithCertificate() const { return files_.WithCertificate(); }

  const testing::TlsTestFiles files_;
  boost::asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, RequestHasThePeerAndTheNamesOfItsCertificate) {
  Start({}, files_.ca_file());
  EXPECT_THAT(Ask(WithCertificate(), kWho),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\n127.0.0.1:"),
                    HasSubstr("|DNS:operator IP:10.0.0.1 authority:service|")));
  EXPECT_THAT(Ask(WithoutCertificate(), kWho), HasSubstr("||"));
}

TEST_F(HttpTlsTest, OnlyTheServicesAuthorityMakesServices) {
  const std::string other_file = files_.folder() + "/other.pem";
  testing::WriteFile(other_file, testing::TestCa().pem());
  Start({}, files_.ca_file(), other_file);
  EXPECT_THAT(Ask(WithCertificate(), kWho), HasSubstr("|DNS:operator IP:10.0.0.1|"));
  Start({}, other_file, files_.ca_file());
  EXPECT_THAT(Ask(WithCertificate(), kWho),
              HasSubstr("|DNS:operator IP:10.0.0.1 authority:service|"));
}

TEST_F(HttpTlsTest, CertificateThatIsNotAskedForGivesNoNames) {
  Start({});
  EXPECT_THAT(Ask(WithCertificate(), kWho), HasSubstr("||"));
}

TEST_F(HttpTlsTest, ClientCertificateOfAnotherCaIsRefused) {
  Start({}, files_.ca_file());
  const testing::TestCa other;
  const auto files = testing::WriteIdentity(other.Issue(21), files_.folder(), "other");
  EXPECT_EQ(Ask({.ca = files_.ca_file(), .cert = files.cert, .key = files.key}, kWho), "");
}

TEST_F(HttpTlsTest, ServerOfAnotherCaIsRefused) {
  Start({});
  const testing::TestCa other;
  testing::WriteFile(files_.folder() + "/other.pem", other.pem());
  EXPECT_FALSE(TlsClient::Connect(server_->port(), {.ca = files_.folder() + "/other.pem"}).ok());
}

TEST_F(HttpTlsTest, RenewedCertificateIsServedWithoutRestart) {
  Start({});
  const auto open = Connect(WithoutCertificate());
  EXPECT_EQ(open->serial(), 10);
  const testing::Identity next = files_.ca().Issue(11);
  testing::WriteFile(files_.server().cert, next.cert);  // for a while without its key
  EXPECT_EQ(Connect(WithoutCertificate())->serial(), 10);
  testing::WriteFile(files_.server().key, next.key);
  const absl::Status renewed = testing::AwaitSerial(server_->port(), WithoutCertificate(), 11);
  EXPECT_TRUE(renewed.ok()) << renewed;
  open->Write(kWho);
  EXPECT_THAT(open->ReadToEnd(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTlsTest, AnswerEndsWithAnEndOfTls) {
  Start({});
  const auto client = Connect(WithoutCertificate());
  client->Write(kWho);
  client->ReadToEnd();
  EXPECT_TRUE(client->ended_cleanly());
}

TEST_F(HttpTlsTest, ConnectionGoesOnWithTheNextRequest) {
  Start({});
  EXPECT_THAT(
      Ask(WithoutCertificate(),
          absl::StrCat("POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
                       "POST /a:echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\necho",
                       kWho)),
      AllOf(HasSubstr("3 bytes"), HasSubstr("4\r\necho\r\n0\r\n"), HasSubstr("||")));
}

TEST_F(HttpTlsTest, StreamsALargeBodyBothWays) {
  Start({});
  const std::string body(3 << 20, 'x');
  const auto client = Connect(WithoutCertificate());
  // OpenSSL serves one thread for each connection, so the client sends and reads in turn.
  client->Write(absl::StrCat(
      "POST /a:echo HTTP/1.0\r\nHost: localhost\r\nContent-Length: ", body.size(), "\r\n\r\n"));
  std::string answer;
  for (size_t at = 0; at < body.size(); at += 64 << 10) {
    client->Write(body.substr(at, 64 << 10));
    if (at == 0) answer = client->ReadSome(1);
    while (answer.size() < at) answer += client->ReadSome(4096);
  }
  answer += client->ReadToEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 207 "));
  EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), body);
  EXPECT_TRUE(client->ended_cleanly());
}

TEST_F(HttpTlsTest, AnswerToATooLargeBodyArrives) {
  Start({.body_bytes_max = 1000});
  EXPECT_THAT(
      Ask(WithoutCertificate(),
          absl::StrCat("POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n",
                       std::string(2000, 'x'))),
      StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpTlsTest, HandshakeThatNeverEndsIsTimedOut) {
  Start({.read_timeout = absl::Milliseconds(50)});
  auto silent = ConnectTcp();
  EXPECT_EQ(ReadToEnd(silent), "");
  auto slow = ConnectTcp();
  // The beginning of a record with a hello.
  boost::asio::write(slow, boost::asio::buffer("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_EQ(ReadToEnd(slow), "");
}

TEST_F(HttpTlsTest, SilentClientAfterTheHandshakeIsTimedOut) {
  Start({.idle_timeout = absl::Milliseconds(50)});
  EXPECT_EQ(Connect(WithoutCertificate())->ReadToEnd(), "");
}

TEST_F(HttpTlsTest, UnfinishedHandshakesGiveWayToNewConnections) {
  Start({.connections_max = 3});
  std::vector<boost::asio::ip::tcp::socket> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(ConnectTcp());
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Ask(WithoutCertificate(), kWho), HasSubstr("200 OK"));
  EXPECT_EQ(ReadToEnd(silent[0]), "");
}

TEST_F(HttpTlsTest, PlaintextClientGetsAnEnd) {
  Start({});
  auto plain = ConnectTcp();
  boost::asio::write(plain, boost::asio::buffer(std::string(kWho)));
  EXPECT_THAT(ReadToEnd(plain), ::testing::Not(HasSubstr("HTTP/1.1 2")));
}

TEST_F(HttpTlsTest, ShutdownEndsOpenHandshakesAndRequests) {
  Start({});
  auto silent = ConnectTcp();
  const auto half = Connect(WithoutCertificate());
  half->Write("GET /wh");
  server_->Shutdown();
  EXPECT_EQ(ReadToEnd(silent), "");
  EXPECT_EQ(half->ReadToEnd(), "");
}

}  // namespace http_tls_test
}  // namespace escapement
