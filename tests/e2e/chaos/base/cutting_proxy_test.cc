#include "tests/e2e/chaos/base/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::chaos {
namespace cutting_proxy_test {

// Longer than any step takes that the proxy does not hold back.
constexpr absl::Duration kSurely = absl::Milliseconds(300);
constexpr absl::Duration kPatience = absl::Seconds(20);

// A server that sends back the bytes it receives.
class Echo {
 public:
  Echo() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 16);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~Echo() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }
  int connections() const { return connections_; }

 private:
  void Run() {
    std::vector<std::thread> threads;
    for (int fd = accept(listener_, nullptr, nullptr); fd >= 0;
         fd = accept(listener_, nullptr, nullptr)) {
      ++connections_;
      threads.emplace_back([fd] {
        char buffer[4096];
        for (ssize_t got = recv(fd, buffer, sizeof(buffer), 0); got > 0;
             got = recv(fd, buffer, sizeof(buffer), 0)) {
          if (send(fd, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) < 0) break;
        }
        close(fd);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int listener_ = -1;
  std::string address_;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const std::string& address) {
    const absl::StatusOr<int> fd = fixtures::ConnectTo(address);
    EXPECT_TRUE(fd.ok()) << fd.status();
    fd_ = fd.value_or(-1);
  }
  ~Client() { close(fd_); }

  void Send(const std::string& bytes) { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // "" if nothing comes within that time, "broken" if the connection has ended.
  std::string Receive(absl::Duration within) {
    pollfd poll_for = {fd_, POLLIN, 0};
    if (poll(&poll_for, 1, static_cast<int>(absl::ToInt64Milliseconds(within))) <= 0) return "";
    char buffer[4096];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
    return got <= 0 ? "broken" : std::string(buffer, static_cast<size_t>(got));
  }

 private:
  int fd_ = -1;
};

class CuttingProxyTest : public testing::Test {
 protected:
  Echo echo_;
  std::unique_ptr<CuttingProxy> proxy_ = CuttingProxy::Start().value();
  const std::string address_ = proxy_->AddLink("link", echo_.address()).value();
};

TEST_F(CuttingProxyTest, AWholeLinkPassesBytesBothWays) {
  Client client(address_);
  client.Send("one");
  EXPECT_EQ(client.Receive(kPatience), "one");
  EXPECT_EQ(proxy_->connections("link"), 1u);
}

TEST_F(CuttingProxyTest, AResetLinkEndsItsConnectionsAndEveryNewOne) {
  Client before(address_);
  before.Send("one");
  EXPECT_EQ(before.Receive(kPatience), "one");
  proxy_->Set("link", Cut::kReset);
  EXPECT_EQ(before.Receive(kPatience), "broken");
  Client during(address_);
  EXPECT_EQ(during.Receive(kPatience), "broken");
  proxy_->Set("link", Cut::kNone);
  Client after(address_);
  after.Send("two");
  EXPECT_EQ(after.Receive(kPatience), "two");
}

TEST_F(CuttingProxyTest, ABlackHoleAcceptsAndPassesNothingOnUntilItIsHealed) {
  proxy_->Set("link", Cut::kBlackHole);
  Client client(address_);
  client.Send("late");
  EXPECT_EQ(client.Receive(kSurely), "");
  proxy_->Set("link", Cut::kNone);
  EXPECT_EQ(client.Receive(kPatience), "late");
}

TEST_F(CuttingProxyTest, AHealedLinkMayResetWhatItHeld) {
  proxy_->Set("link", Cut::kBlackHole);
  Client client(address_);
  client.Send("lost");
  EXPECT_EQ(client.Receive(kSurely), "");
  proxy_->Set("link", Cut::kNone, /*reset=*/true);
  EXPECT_EQ(client.Receive(kPatience), "broken");
}

TEST_F(CuttingProxyTest, OneDirectionIsCut) {
  for (Cut cut : {Cut::kNoRequest, Cut::kNoAnswer}) {
    Client client(address_);
    client.Send("before");
    EXPECT_EQ(client.Receive(kPatience), "before");
    proxy_->Set("link", cut);
    client.Send("during");
    EXPECT_EQ(client.Receive(kSurely), "");
    proxy_->Set("link", Cut::kNone);
    EXPECT_EQ(client.Receive(kPatience), "during");
  }
}

TEST_F(CuttingProxyTest, ASlowLinkIsLateBothWays) {
  proxy_->Set("link", Cut::kSlow);
  Client client(address_);
  const absl::Time sent = absl::Now();
  client.Send("slow");
  EXPECT_EQ(client.Receive(kPatience), "slow");
  EXPECT_GE(absl::Now() - sent, 2 * CuttingProxy::Options().slow);
}

TEST_F(CuttingProxyTest, TornLinkPassesTheBeginOfARequest) {
  Client client(address_);
  client.Send("whole");
  EXPECT_EQ(client.Receive(kPatience), "whole");
  proxy_->Set("link", Cut::kTorn);
  const std::string request(2000, 'r');
  client.Send(request);
  std::string passed;
  for (std::string more = client.Receive(kPatience); !more.empty(); more = client.Receive(kSurely))
    passed += more;
  const size_t least = CuttingProxy::Options().torn_bytes;
  EXPECT_GE(passed.size(), least);
  EXPECT_LE(passed.size(), 4 * least);
  proxy_->Set("link", Cut::kNone, /*reset=*/true);
  EXPECT_EQ(client.Receive(kPatience), "broken");
}

TEST_F(CuttingProxyTest, RedirectedLinkLeadsToTheOtherUpstream) {
  Client before(address_);
  before.Send("one");
  EXPECT_EQ(before.Receive(kPatience), "one");
  const Echo other;
  ASSERT_TRUE(proxy_->Redirect("link", other.address()).ok());
  EXPECT_EQ(before.Receive(kPatience), "broken");
  Client after(address_);
  after.Send("two");
  EXPECT_EQ(after.Receive(kPatience), "two");
  EXPECT_EQ(other.connections(), 1);
}

TEST_F(CuttingProxyTest, AnUpstreamThatIsDownEndsTheConnection) {
  std::string address;
  {
    Echo gone;
    address = proxy_->AddLink("gone", gone.address()).value();
  }
  Client client(address);
  EXPECT_EQ(client.Receive(kPatience), "broken");
}

}  // namespace cutting_proxy_test
}  // namespace escapement::chaos
