// Tests of tokens in HTTP requests, and of answers with the work's end.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace work_test {

using fixtures::CollectingSink;
using fixtures::MakeAttempts;
using fixtures::OnLoopback;

constexpr char kToken[] = "AQADmMh0-a_token";

// Answers one request with fixed bytes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string response) : response_(std::move(response)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 1);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~OneAnswer() {
    Join();
    close(listener_);
  }

  std::string uri(absl::string_view user) const {
    return absl::StrCat("http://", user, "127.0.0.1:", port_, "/");
  }
  // Call it after the answer has come.
  const std::string& request() {
    Join();
    return request_;
  }

 private:
  void Serve() {
    const int fd = accept(listener_, nullptr, nullptr);
    char bytes[4096];
    while (!absl::StrContains(request_, "\r\n\r\n{}")) {
      const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
      if (n <= 0) break;
      request_.append(bytes, static_cast<size_t>(n));
    }
    send(fd, response_.data(), response_.size(), MSG_NOSIGNAL);
    close(fd);
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  const std::string response_;
  int listener_ = -1;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

struct Exchanged {
  DeliveryResult result;
  std::string request;
};

// The tests run with plain requests and with requests by libcurl (http_transport_test.cc).
class HttpWorkTest : public ::testing::TestWithParam<const char*> {};

Exchanged HttpSend(const std::string& headers, const std::string& token) {
  OneAnswer receiver(
      absl::StrCat("HTTP/1.1 200 OK\r\n", headers, "Content-Length: 7\r\n\r\nbecause"));
  HttpTransport transport{OnLoopback<HttpTransport>()};
  const auto sink = std::make_shared<CollectingSink>();
  std::vector<DeliveryAttempt> attempts =
      MakeAttempts({.uri = receiver.uri(HttpWorkTest::GetParam())}, 1, 1);
  attempts[0].token = token;
  transport.Send(std::move(attempts), sink);
  EXPECT_TRUE(sink->Await(1));
  return {.result = sink->Only(1), .request = receiver.request()};
}

TEST_P(HttpWorkTest, TheTokenIsAHeader) {
  EXPECT_TRUE(absl::StrContains(HttpSend("", kToken).request,
                                absl::StrCat("\r\nEscapement-Token: ", kToken, "\r\n")));
  EXPECT_FALSE(absl::StrContains(HttpSend("", "").request, "Escapement-Token"));
}

TEST_P(HttpWorkTest, TheOutcomeHeaderSaysHowTheWorkEnded) {
  const auto work = [](const std::string& headers) {
    return HttpSend(headers, kToken).result.work;
  };
  EXPECT_EQ(work(""), DeliveryWork::kGoesOn);
  EXPECT_EQ(work("Escapement-Outcome: succeeded\r\n"), DeliveryWork::kSucceeded);
  EXPECT_EQ(work("escapement-outcome:SUCCEEDED \r\n"), DeliveryWork::kSucceeded);
  EXPECT_EQ(work("Escapement-Outcome: Failed\r\n"), DeliveryWork::kFailed);
  EXPECT_EQ(work("Escapement-Outcome: perhaps\r\n"), DeliveryWork::kGoesOn);
  EXPECT_EQ(work("Escapement-Outcome: succeeded\r\nEscapement-Outcome: failed\r\n"),
            DeliveryWork::kFailed);
}

TEST_P(HttpWorkTest, FailedWorkHasItsReasonOnlyWithAToken) {
  const DeliveryResult failed = HttpSend("Escapement-Outcome: failed\r\n", kToken).result;
  EXPECT_EQ(failed.status, DeliveryStatus::kAccepted);
  EXPECT_EQ(failed.message, "because");
  const DeliveryResult other = HttpSend("Escapement-Outcome: failed\r\n", "").result;
  EXPECT_EQ(other.status, DeliveryStatus::kAccepted);
  EXPECT_EQ(other.work, DeliveryWork::kGoesOn);
  EXPECT_EQ(other.message, "");
}

INSTANTIATE_TEST_SUITE_P(PlainAndWithAUser, HttpWorkTest, ::testing::Values("", "somebody@"));

}  // namespace work_test
}  // namespace escapement::handler
