#include "common/http/http_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace http_server_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Sends raw bytes and reads until the server closes the connection.
std::string Exchange(int port, const std::string& bytes) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket socket(io);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(port)});
  boost::system::error_code error;
  boost::asio::write(socket, boost::asio::buffer(bytes), error);
  std::string answer;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

std::string Get(int port, const std::string& path, const std::string& method = "GET") {
  return Exchange(port, absl::StrCat(method, " ", path,
                                     " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
}

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() : server_({.header_bytes_max = 2048, .body_bytes_max = 1000}) {
    server_.RouteSync("GET", "/healthz",
                      [](const HttpRequest&) { return HttpResponse{.body = "ok\n"}; });
    server_.RouteSync("POST", "/v1/", [](const HttpRequest& request) {
      return HttpResponse{.body = absl::StrCat(request.path, "|", request.query, "|",
                                               request.Header("x-test"), "|", request.body)};
    });
    server_.Route("GET", "/dropped", [](HttpRequest, HttpResponder) {});
    server_.Route("GET", "/later", [this](HttpRequest, HttpResponder respond) {
      later_ = std::thread([respond] { respond(HttpResponse{.status = 202, .body = "later"}); });
    });
    server_.RouteStream("POST", "/v1/", ":echo", [](HttpRequest, std::shared_ptr<HttpStream> s) {
      s->Begin({.status = 207});
      Echo(std::move(s));
    });
    server_.RouteStream("POST", "/v1/", ":refuse", [](HttpRequest, std::shared_ptr<HttpStream> s) {
      s->Refuse({.status = 403});
    });
    server_.RouteStream("POST", "/v1/", ":drop", [](HttpRequest, std::shared_ptr<HttpStream>) {});
    EXPECT_TRUE(server_.Start().ok());
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
  ~HttpServerTest() override {
    if (later_.joinable()) later_.join();
  }
  std::thread later_;
  HttpServer server_;
};

// One request, whatever its head says about its length.
TEST_F(HttpServerTest, SecondRequestIsNotHiddenInTheFirst) {
  const std::string hidden = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char* line :
       {"Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\r\nContent-Length: 3",
        "Content-Length: 0\r\nContent-Length: 5", "Transfer-Encoding: identity",
        "Transfer-Encoding : chunked", "Host: localhost"}) {
    const std::string answer = Exchange(
        server_.port(),
        absl::StrCat("POST /v1/x HTTP/1.1\r\nHost: localhost\r\n", line, "\r\n\r\n", hidden));
    EXPECT_THAT(answer, AnyOf(StartsWith("HTTP/1.1 400"), StartsWith("HTTP/1.1 501"))) << line;
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << line << "\n" << answer;
  }
}

TEST_F(HttpServerTest, NameOfAnotherHostIsRefusedOnLoopback) {
  const auto status_for = [](int port, const std::string& host) {
    return Exchange(port, absl::StrCat("GET /healthz HTTP/1.1\r\nHost: ", host,
                                       "\r\nConnection: close\r\n\r\n"))
        .substr(9, 3);
  };
  EXPECT_EQ(status_for(server_.port(), "evil.example"), "421");
  EXPECT_EQ(status_for(server_.port(), "localhost"), "200");
  EXPECT_EQ(status_for(server_.port(), "127.0.0.1:1"), "200");
  HttpServer named({.credentials = true, .host_names = {"ops.example"}});
  HttpServer secured({.credentials = true});
  for (HttpServer* server : {&named, &secured}) {
    server->RouteSync("GET", "/healthz",
                      [](const HttpRequest&) { return HttpResponse{.body = "ok\n"}; });
    ASSERT_TRUE(server->Start().ok());
  }
  EXPECT_EQ(status_for(named.port(), "evil.example"), "421");
  EXPECT_EQ(status_for(named.port(), "ops.example:7411"), "200");
  EXPECT_EQ(status_for(secured.port(), "evil.example"), "200") << "credentials protect it";
}

TEST_F(HttpServerTest, AnswerToATooLargeBodyArrivesWhileTheClientStillSends) {
  const size_t bytes = 8 << 20;  // more than the buffers of both sockets
  const std::string answer =
      Exchange(server_.port(),
               absl::StrCat("POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", bytes,
                            "\r\n\r\n", std::string(bytes, 'x')));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
}

// The body of an answer in chunks.
std::string Unchunked(absl::string_view answer) {
  answer.remove_prefix(answer.find("\r\n\r\n") + 4);
  std::string body;
  while (true) {
    uint32_t bytes = 0;
    const size_t end = answer.find("\r\n");
    if (!absl::SimpleHexAtoi(answer.substr(0, end), &bytes) || bytes == 0) return body;
    absl::StrAppend(&body, answer.substr(end + 2, bytes));
    answer.remove_prefix(end + 2 + bytes + 2);
  }
}

TEST_F(HttpServerTest, StreamsABodyOfAnySizeBothWays) {
  std::string body;
  for (int i = 0; body.size() < 3 << 20; ++i) absl::StrAppend(&body, "line ", i, "\n");
  std::string answer;
  // The sender does not wait for the answer, which is larger than the sockets' buffers.
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket socket(io);
  socket.connect(
      {boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_.port())});
  std::thread sender([&] {
    boost::system::error_code error;
    boost::asio::write(socket,
                       boost::asio::buffer(absl::StrCat(
                           "POST /v1/a:echo HTTP/1.1\r\nHost: localhost\r\nConnection: "
                           "close\r\nContent-Length: ",
                           body.size(), "\r\n\r\n", body)),
                       error);
  });
  boost::system::error_code error;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
  sender.join();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 207 "));
  EXPECT_EQ(Unchunked(answer), body);
}

TEST_F(HttpServerTest, AConnectionGoesOnAfterAStream) {
  const std::string answer =
      Exchange(server_.port(),
               "POST /v1/a:echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
               "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
               "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(Unchunked(answer), StartsWith("abc"));
  EXPECT_THAT(answer, HasSubstr("ok\n"));
}

TEST_F(HttpServerTest, AStreamMayBeRefusedOrDropped) {
  const std::string body(2000, 'x');
  const auto post = [&](const std::string& path) {
    return Exchange(server_.port(),
                    absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                                 body.size(), "\r\n\r\n", body));
  };
  EXPECT_THAT(post("/v1/a:refuse"), StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(post("/v1/a:drop"), "");
}

TEST(HttpServer, SlowClientsGiveWayToNewOnes) {
  HttpServer server({.connections_max = 3});
  server.RouteSync("GET", "/healthz", [](const HttpRequest&) { return HttpResponse(); });
  ASSERT_TRUE(server.Start().ok());
  boost::asio::io_context io;
  std::vector<boost::asio::ip::tcp::socket> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back(io).connect(
        {boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server.port())});
    boost::asio::write(slow.back(), boost::asio::buffer("GET /he", 7));
  }
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Get(server.port(), "/healthz"), HasSubstr("200 OK"));
  // The first one had to go.
  std::string end;
  boost::system::error_code error;
  boost::asio::read(slow[0], boost::asio::dynamic_buffer(end), error);
  EXPECT_TRUE(error) << error.message();
  boost::asio::write(slow[2],
                     boost::asio::buffer(std::string("althz HTTP/1.1\r\nHost: localhost\r\n"
                                                     "Connection: close\r\n\r\n")));
  boost::asio::read(slow[2], boost::asio::dynamic_buffer(end), error);
  EXPECT_THAT(end, HasSubstr("200 OK"));
}

// Connections of one client, by its address.
class Clients {
 public:
  explicit Clients(int port) : port_(static_cast<uint16_t>(port)) {}
  boost::asio::ip::tcp::socket& Connect(const char* from, const std::string& bytes) {
    boost::asio::ip::tcp::socket& socket = sockets_.emplace_back(io_);
    socket.open(boost::asio::ip::tcp::v4());
    socket.bind({boost::asio::ip::make_address(from), 0});
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port_});
    boost::asio::write(socket, boost::asio::buffer(bytes));
    return socket;
  }
  // The bytes that arrive until the server closes the connection, or until `end` has arrived.
  static std::string Read(boost::asio::ip::tcp::socket& socket, const std::string& end) {
    std::string answer;
    boost::system::error_code error;
    boost::asio::read_until(socket, boost::asio::dynamic_buffer(answer), end, error);
    return answer;
  }

 private:
  const uint16_t port_;
  boost::asio::io_context io_;
  std::deque<boost::asio::ip::tcp::socket> sockets_;
};

TEST(HttpServer, StreamsOfOneClientLeaveRoomForOthers) {
  HttpServer server({.connections_max = 4});
  server.RouteSync("GET", "/healthz", [](const HttpRequest&) { return HttpResponse(); });
  server.RouteStream("POST", "/v1/", ":read", [](HttpRequest, std::shared_ptr<HttpStream> stream) {
    stream->Begin({});
    stream->Read([stream](absl::StatusOr<std::string>) {});
  });
  ASSERT_TRUE(server.Start().ok());
  Clients clients(server.port());
  const std::string head =
      "POST /v1/a:read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::vector<boost::asio::ip::tcp::socket*> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(&clients.Connect("127.0.0.1", head));
    EXPECT_THAT(Clients::Read(*streams.back(), "\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  }
  for (int i = 0; i < 3; ++i) {
    boost::asio::ip::tcp::socket& other =
        clients.Connect("127.0.0.2", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(Clients::Read(other, "\r\n\r\n"), HasSubstr("200 OK")) << i;
  }
}

TEST(HttpServer, StreamThatTricklesIsEnded) {
  HttpServer server({.stream_bytes_min = 100, .stream_bytes_within = absl::ZeroDuration()});
  server.RouteStream("POST", "/v1/", ":read", [](HttpRequest, std::shared_ptr<HttpStream> stream) {
    stream->Read([stream](const absl::StatusOr<std::string>& piece) {
      EXPECT_TRUE(piece.ok()) << piece.status();
      stream->Read([stream](const absl::StatusOr<std::string>& next) {
        if (absl::IsDeadlineExceeded(next.status())) return stream->Refuse({.status = 408});
        EXPECT_EQ(next.value_or("error"), "");
        stream->Begin({});
        stream->End();
      });
    });
  });
  ASSERT_TRUE(server.Start().ok());
  Clients clients(server.port());
  const std::string head =
      "POST /v1/a:read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(Clients::Read(clients.Connect("127.0.0.1", head + "3\r\nabc\r\n"), "\r\n\r\n"),
              StartsWith("HTTP/1.1 408"));
  const std::string enough = "64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n";
  EXPECT_THAT(Clients::Read(clients.Connect("127.0.0.1", head + enough), "\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, ClientWithMostConnectionsGivesWay) {
  HttpServer server({.connections_max = 4});
  server.RouteSync("GET", "/healthz", [](const HttpRequest&) { return HttpResponse(); });
  ASSERT_TRUE(server.Start().ok());
  Clients clients(server.port());
  const std::string whole = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  boost::asio::ip::tcp::socket& first = clients.Connect("127.0.0.2", whole);
  EXPECT_THAT(Clients::Read(first, "\r\n\r\n"), HasSubstr("200 OK"));
  for (int i = 0; i < 10; ++i) {
    boost::asio::ip::tcp::socket& next = clients.Connect("127.0.0.1", whole);
    EXPECT_THAT(Clients::Read(next, "\r\n\r\n"), HasSubstr("200 OK")) << i;
  }
  boost::asio::write(first, boost::asio::buffer(whole));
  EXPECT_THAT(Clients::Read(first, "\r\n\r\n"), HasSubstr("200 OK")) << "it was there first";
}

TEST_F(HttpServerTest, AnswersExpectContinue) {
  const std::string answer = Exchange(
      server_.port(),
      "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\n"
      "Content-Length: 2\r\n\r\nhi");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AnswersRoutesAndRefusesTheRest) {
  EXPECT_THAT(Get(server_.port(), "/healthz"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\n\r\nok\n")));
  EXPECT_THAT(Get(server_.port(), "/nothing"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get(server_.port(), "/healthz", "POST"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Get(server_.port(), "/healthz", "HEAD"),
              AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("ok\n"))));
}

TEST_F(HttpServerTest, GivesTheWholeRequestToAPrefixRoute) {
  const std::string answer =
      Exchange(server_.port(),
               "POST /v1/a?b=c HTTP/1.1\r\nHost: localhost\r\nX-Test: t\r\nContent-Length: 4\r\n"
               "Connection: close\r\n\r\nbody");
  EXPECT_THAT(answer, HasSubstr("/v1/a|b=c|t|body"));
}

TEST_F(HttpServerTest, KeepsTheConnectionForPipelinedRequests) {
  const std::string answer = Exchange(
      server_.port(),
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("200 OK"), HasSubstr("404 Not Found")));
}

TEST_F(HttpServerTest, BoundsHeadersBodiesAndNonsense) {
  EXPECT_THAT(Exchange(server_.port(),
                       absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(5000, 'x'), "\r\n\r\n")),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(
      Exchange(server_.port(),
               "POST /v1/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"),
      StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Exchange(server_.port(), "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, AnswersLaterFromAnotherThreadAnd500WhenDropped) {
  EXPECT_THAT(Get(server_.port(), "/later"), AllOf(StartsWith("HTTP/1.1 202"), HasSubstr("later")));
  EXPECT_THAT(Get(server_.port(), "/dropped"), StartsWith("HTTP/1.1 500"));
}

TEST(HttpServerTimeoutTest, ClosesAConnectionThatSendsTooSlowly) {
  HttpServer server(
      {.read_timeout = absl::Milliseconds(50), .idle_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(server.Start().ok());
  EXPECT_EQ(Exchange(server.port(), "GET / HT"), "");
  EXPECT_EQ(Exchange(server.port(), ""), "");
}

TEST(HttpServerStartTest, RefusesWhatItCannotOrMustNotBind) {
  HttpServer beyond({.listen = "0.0.0.0:0"});
  EXPECT_EQ(beyond.Start().code(), absl::StatusCode::kInvalidArgument);
  HttpServer first({});
  ASSERT_TRUE(first.Start().ok());
  HttpServer second({.listen = first.address()});
  EXPECT_EQ(second.Start().code(), absl::StatusCode::kUnavailable);
}

}  // namespace http_server_test
}  // namespace escapement
