// POST events:ingest with newline-delimited JSON, to a standalone process.

#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/http/http_server.h"
#include "common/rest/json_bytes.h"
#include "common/rest/route_table.h"
#include "common/rpc/channel.h"
#include "common/runtime/system_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/master/ingest/ndjson_door.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::doors {
namespace ndjson_test {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using nlohmann::json;

constexpr const char* kIngest = "/v1/tenants/default/events:ingest";

class NdjsonTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = integration::NewFolder("ndjson");
    platform_ = std::make_unique<integration::Platform>(
        integration::Platform::Options{.bin = integration::BuiltFolder(), .folder = folder_});
    const absl::Status status = platform_->Start({"standalone"});
    ASSERT_TRUE(status.ok()) << status;
  }

  const std::string& address() const { return platform_->http_address("standalone"); }

  asio::ip::tcp::endpoint endpoint() const {
    const std::pair<std::string, std::string> parts = absl::StrSplit(address(), ':');
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts.second, &port)) << address();
    return {asio::ip::make_address(parts.first), static_cast<uint16_t>(port)};
  }

  // The most memory that the process has had, in MiB.
  int64_t PeakMemory() const {
    std::ifstream status(absl::StrCat("/proc/", platform_->pid("standalone"), "/status"));
    for (std::string line; std::getline(status, line);) {
      int64_t kib = 0;
      if (absl::StartsWith(line, "VmHWM:") &&
          absl::SimpleAtoi(std::vector<std::string>(
                               absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()))[1],
                           &kib))
        return kib / 1024;
    }
    return 0;
  }

  // Sends `body(i)` for each i below `pieces`, and calls `on_line` with each line of the answer at
  // the same time. Returns the status.
  int Exchange(int pieces, const std::function<std::string(int)>& body,
               const std::function<void(absl::string_view)>& on_line) {
    asio::io_context io;
    asio::ip::tcp::socket socket(io);
    socket.connect(endpoint());
    std::thread sender([&] {
      beast::error_code error;
      asio::write(socket,
                  asio::buffer(absl::StrCat("POST ", kIngest,
                                            " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                            "Transfer-Encoding: chunked\r\n\r\n")),
                  error);
      for (int i = 0; i < pieces && !error; ++i) {
        const std::string piece = body(i);
        asio::write(socket,
                    asio::buffer(absl::StrCat(absl::Hex(piece.size()), "\r\n", piece, "\r\n")),
                    error);
      }
      asio::write(socket, asio::buffer(std::string("0\r\n\r\n")), error);
    });
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    beast::error_code error;
    http::read_header(socket, buffer, parser, error);
    std::string rest;
    std::string piece(64 << 10, '\0');
    while (!error && !parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      http::read_some(socket, buffer, parser, error);
      if (error == http::error::need_buffer) error = {};
      rest.append(piece, 0, piece.size() - parser.get().body().size);
      size_t begin = 0;
      for (size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
        on_line(absl::string_view(rest).substr(begin, end - begin));
      rest.erase(0, begin);
    }
    sender.join();
    EXPECT_EQ(rest, "");
    return static_cast<int>(parser.get().result_int());
  }

  std::string folder_;
  std::unique_ptr<integration::Platform> platform_;
};

TEST_F(NdjsonTest, AnswersAHundredThousandLinesInOrder) {
  constexpr int kPieces = 1000;
  const auto piece = [](int i) {
    std::string lines;
    for (int n = 0; n < 100; ++n) {
      absl::StrAppend(&lines, "{\"eventId\":\"e", i * 100 + n,
                      "\",\"dueTime\":\"2090-01-01T00:00:00Z\","
                      "\"target\":{\"http\":{\"uri\":\"http://127.0.0.1:9/\"}}}\n");
    }
    return lines;
  };
  int lines = 0;
  int wrong = 0;
  EXPECT_EQ(
      Exchange(kPieces, piece,
               [&](absl::string_view line) {
                 if (line != absl::StrCat("{\"line\":", lines + 1,
                                          ",\"name\":\"tenants/default/events/e", lines, "\"}"))
                   ++wrong;
                 ++lines;
               }),
      200);
  EXPECT_EQ(lines, 100'000);
  EXPECT_EQ(wrong, 0);
  for (const char* id : {"e0", "e54321", "e99999"}) {
    const auto event =
        integration::HttpGet(address(), absl::StrCat("/v1/tenants/default/events/", id));
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(json::parse(event->body).value("state", ""), "PENDING") << event->body;
  }
}

// 60 MB of lines that are no events, each with an answer longer than the line.
TEST_F(NdjsonTest, NeedsBoundedMemoryForAnyBody) {
  const int64_t before = PeakMemory();
  std::string piece;
  while (piece.size() < 60'000)
    absl::StrAppend(&piece, "{\"x\":\"", std::string(180, 'x'), "\"}\n");
  int refused = 0;
  EXPECT_EQ(Exchange(
                1000, [&](int) { return piece; },
                [&](absl::string_view line) {
                  if (absl::StrContains(line, "INVALID_ARGUMENT")) ++refused;
                }),
            200);
  EXPECT_EQ(refused, 1000 * std::count(piece.begin(), piece.end(), '\n'));
  EXPECT_LT(PeakMemory() - before, 64);
}

TEST_F(NdjsonTest, ARefusedLineDoesNotStopTheOthers) {
  const auto answer = integration::HttpSend(
      address(), {.method = "POST",
                  .path = kIngest,
                  .body = "{\"eventId\":\"a\",\"target\":{\"grpc\":{\"uri\":\"127.0.0.1:9\"}}}\n"
                          "nothing\n\n"
                          "{\"eventId\":\"no target\"}\n"
                          "{\"eventId\":\"a\",\"target\":{\"grpc\":{\"uri\":\"127.0.0.1:9\"}}}"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("content-type"), "application/x-ndjson");
  const std::vector<std::string> lines = absl::StrSplit(answer->body, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u) << answer->body;
  EXPECT_EQ(json::parse(lines[1])["error"]["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(json::parse(lines[2])["line"], 4);
  // Lines 1 and 5 may go in two batches, of which either may be first.
  const json first = json::parse(lines[0]);
  const json last = json::parse(lines[3]);
  EXPECT_EQ(first["name"], "tenants/default/events/a");
  EXPECT_EQ(last["name"], "tenants/default/events/a");
  EXPECT_NE(first.contains("existing"), last.contains("existing")) << answer->body;
}

// A million blank lines are packed to a kilobyte.
TEST_F(NdjsonTest, BodyMayBePacked) {
  const auto lines_of = [&](const std::string& body) {
    const auto answer = integration::HttpSend(address(), {.method = "POST",
                                                          .path = kIngest,
                                                          .headers = {{"Content-Encoding", "gzip"}},
                                                          .body = body});
    std::vector<json> lines;
    if (!answer.ok()) return lines;
    for (const auto line : absl::StrSplit(answer->body, '\n', absl::SkipEmpty()))
      lines.push_back(json::parse(line));
    return lines;
  };
  const std::string packed = rest::Gzipped(absl::StrCat(
      R"({"eventId":"p1","payloadText":"hi","target":{"grpc":{"uri":"127.0.0.1:9"}}})", "\n",
      std::string(1'000'000, '\n'),
      R"({"eventId":"p2","payloadJson":{"a": 1},"target":{"grpc":{"uri":"127.0.0.1:9"}}})"));
  std::vector<json> lines = lines_of(packed);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["name"], "tenants/default/events/p1");
  EXPECT_EQ(lines[1]["name"], "tenants/default/events/p2");
  EXPECT_EQ(lines[1]["line"], 1'000'002);
  // Whole lines before the fault count.
  lines = lines_of(packed.substr(0, packed.size() - 1));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].value("existing", false), true);
  EXPECT_EQ(lines[1]["error"]["status"], "INVALID_ARGUMENT");
}

// The door as in the process, on a server of this test that has less patience.
TEST_F(NdjsonTest, ClientThatTricklesIsToldSo) {
  SystemRuntime runtime;
  const auto routes = rest::RouteTable::Build(*google::protobuf::DescriptorPool::generated_pool(),
                                              {"escapement.v1.EventService"});
  ASSERT_TRUE(routes.ok()) << routes.status();
  master::NdjsonDoor door(NewChannel(platform_->grpc_address("standalone"), {}), runtime,
                          [](HttpRequest&) { return absl::OkStatus(); });
  HttpServer server({.stream_bytes_min = 1000, .stream_bytes_within = absl::ZeroDuration()});
  for (const rest::RestRoute& route : routes->line_routes()) door.AddTo(server, route);
  ASSERT_TRUE(server.Start().ok());
  const auto answer_to = [&server](const std::string& piece) {
    asio::io_context io;
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::address_v4::loopback(), static_cast<uint16_t>(server.port())});
    asio::write(socket, asio::buffer(absl::StrCat(
                            "POST ", kIngest,
                            " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                            absl::Hex(piece.size()), "\r\n", piece, "\r\n")));
    std::string answer;
    beast::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);  // to its end
    return answer;
  };
  const std::string nothing = answer_to("{\"ev");
  EXPECT_THAT(nothing, testing::StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(nothing, testing::HasSubstr("STREAM_TOO_SLOW"));
  // Lines that have come are ingested and answered.
  const std::string one =
      answer_to("{\"eventId\":\"slow\",\"target\":{\"grpc\":{\"uri\":\"127.0.0.1:9\"}}}\n{\"ev");
  EXPECT_THAT(one, testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(one, testing::HasSubstr("events/slow\""));
  EXPECT_THAT(one, testing::HasSubstr("STREAM_TOO_SLOW"));
  EXPECT_EQ(integration::HttpGet(address(), "/v1/tenants/default/events/slow")->status, 200);
}

TEST_F(NdjsonTest, AThousandStreamsOfAClientKeepNobodyOut) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> streams;
  // The server may have ended a stream to make room.
  const auto send = [](asio::ip::tcp::socket& stream, const std::string& bytes) {
    beast::error_code ended;
    asio::write(stream, asio::buffer(bytes), ended);
  };
  for (int i = 0; i < 1000; ++i) {
    streams.emplace_back(io).connect(endpoint());
    send(streams.back(), absl::StrCat("POST ", kIngest,
                                      " HTTP/1.1\r\nHost: localhost\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"));
  }
  for (int round = 0; round < 3; ++round) {
    for (asio::ip::tcp::socket& stream : streams) send(stream, "1\r\n \r\n");
    for (const char* path : {"/healthz", "/readyz", "/v1/tenants/default/schedules"}) {
      const auto answer = integration::HttpGet(address(), path);
      ASSERT_TRUE(answer.ok()) << path << ": " << answer.status();
      EXPECT_EQ(answer->status, 200) << path << ": " << answer->body;
    }
    const auto event = integration::HttpSend(
        address(), {.method = "POST",
                    .path = absl::StrCat("/v1/tenants/default/events?eventId=other", round),
                    .body = "{\"target\":{\"grpc\":{\"uri\":\"127.0.0.1:9\"}}}"});
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(event->status, 200) << event->body;
  }
}

TEST_F(NdjsonTest, RefusesARequestThatIsNone) {
  const auto status = [&](integration::HttpCall call) {
    call.method = "POST";
    const auto answer = integration::HttpSend(address(), call);
    return answer.ok() ? answer->status : 0;
  };
  EXPECT_EQ(status({.path = "/v1/tenants/Bad%20one/events:ingest", .body = "{}"}), 400);
  EXPECT_EQ(status({.path = "/v1/tenants/a/b/events:ingest", .body = "{}"}), 404);
  EXPECT_EQ(status({.path = kIngest, .headers = {{"Content-Encoding", "br"}}, .body = "{}"}), 415);
  EXPECT_EQ(status({.path = kIngest, .body = ""}), 200);
}

}  // namespace ndjson_test
}  // namespace escapement::doors
