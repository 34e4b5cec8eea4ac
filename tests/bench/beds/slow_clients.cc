#include "tests/bench/beds/slow_clients.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "grpcpp/grpcpp.h"

namespace escapement::bench {

namespace {

constexpr absl::Duration kConnectMax = absl::Seconds(60);

absl::Status Enough(const std::string& kind, int open, int wanted) {
  if (open >= wanted - wanted / 10) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("only ", open, " of ", wanted, " ", kind, " connections are open"));
}

}  // namespace

SlowClients::SlowClients(const Options& options) : options_(options) {}
SlowClients::~SlowClients() = default;

absl::StatusOr<std::unique_ptr<SlowClients>> SlowClients::Start(const Options& options) {
  std::unique_ptr<SlowClients> clients(new SlowClients(options));
  RETURN_IF_ERROR(clients->Connect());
  return clients;
}

absl::Status SlowClients::Connect() {
  const auto deadline = absl::ToChronoTime(absl::Now() + kConnectMax);
  for (int i = 0; i < options_.grpc_connections; ++i) {
    channels_.push_back(NewChannel(options_.grpc));
    // One after the other, so that no attempt waits longer than it may.
    if (!channels_.back()->WaitForConnected(deadline))
      return absl::DeadlineExceededError(absl::StrCat("gRPC connection ", i, " was not opened"));
  }
  ASSIGN_OR_RETURN(auto http, SlowHttpClients::Start(options_.http, options_.http_clients));
  http_ = std::move(http);
  return absl::OkStatus();
}

absl::Status SlowClients::CheckConnected() const {
  const auto ready = std::count_if(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel->GetState(false) == GRPC_CHANNEL_READY;
  });
  RETURN_IF_ERROR(Enough("gRPC", static_cast<int>(ready), options_.grpc_connections));
  return Enough("HTTP", http_->open(), options_.http_clients);
}

uint64_t SlowClients::http_connects() const { return http_->connects(); }

absl::Status AllowOpenFiles(uint64_t files) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= files) return absl::OkStatus();
  limit.rlim_cur = files;
  limit.rlim_max = std::max<rlim_t>(limit.rlim_max, files);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this needs ", files, " open files; raise the limit with ulimit -Hn"));
}

namespace {

// A client sends these bytes and then the last one over and over, so its header never ends.
constexpr absl::string_view kRequest = "GET /v1/tenants/default/schedules HTTP/1.1\r\nX-Slow: a";
constexpr absl::Duration kByteInterval = absl::Seconds(1);
constexpr absl::Duration kConnectAgainAfter = absl::Milliseconds(100);
// The first connections are spread over HttpServer's read_timeout. Otherwise the server would end
// all of them within one second, again and again.
constexpr absl::Duration kFirstConnects = absl::Seconds(15);
// The thread wakes at least so often. Bytes that are due between two wakes go together.
constexpr int kTickMillis = 10;
// The most ends of connections that one wake handles, so that the other clients keep sending.
constexpr size_t kEventsMax = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<SlowHttpClients>> SlowHttpClients::Start(const std::string& address,
                                                                        int clients) {
  const size_t colon = address.rfind(':');
  sockaddr_in server = {};
  server.sin_family = AF_INET;
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &server.sin_addr) != 1)
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not an IPv4 address"));
  server.sin_port = htons(static_cast<uint16_t>(port));
  return std::unique_ptr<SlowHttpClients>(new SlowHttpClients(server, clients));
}

SlowHttpClients::SlowHttpClients(const sockaddr_in& server, int clients)
    : server_(server),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      clients_(static_cast<size_t>(clients)),
      thread_([this] { Run(); }) {}

SlowHttpClients::~SlowHttpClients() {
  stopping_ = true;
  thread_.join();
  for (const Client& client : clients_) {
    if (client.socket >= 0) close(client.socket);
  }
  close(epoll_);
}

void SlowHttpClients::Run() {
  const auto clients = static_cast<int64_t>(clients_.size());
  const absl::Duration step = kByteInterval / clients;
  absl::Time next_byte = absl::Now();
  absl::Time next_connect = next_byte;
  size_t next_client = 0;
  std::array<epoll_event, kEventsMax> events;
  while (!stopping_) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(kEventsMax), kTickMillis);
    for (int i = 0; i < count; ++i) Read(events[static_cast<size_t>(i)].data.u64);
    const absl::Time now = absl::Now();
    for (; begun_ < clients_.size() && next_connect <= now;
         next_connect += kFirstConnects / clients)
      Connect(begun_++);
    ConnectAgain(now);
    for (; next_byte <= now; next_byte += step) {
      Send(next_client);
      next_client = (next_client + 1) % clients_.size();
    }
  }
}

void SlowHttpClients::Connect(size_t client) {
  Client& c = clients_[client];
  c.sent = 0;
  c.socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c.socket < 0) return closed_.push_back({client, absl::Now()});
  ++open_;
  ++connects_;
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = client;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, c.socket, &event) != 0) return Close(client);
  const int connected =
      connect(c.socket, reinterpret_cast<const sockaddr*>(&server_), sizeof server_);
  if (connected != 0 && errno != EINPROGRESS) Close(client);
}

void SlowHttpClients::ConnectAgain(absl::Time now) {
  while (!closed_.empty() && now - closed_.front().since >= kConnectAgainAfter) {
    const size_t client = closed_.front().client;
    closed_.pop_front();
    Connect(client);
  }
}

void SlowHttpClients::Send(size_t client) {
  Client& c = clients_[client];
  if (c.socket < 0) return;
  const char byte = kRequest[std::min(c.sent, kRequest.size() - 1)];
  if (send(c.socket, &byte, 1, MSG_NOSIGNAL) == 1) {
    ++c.sent;
  } else if (errno != EAGAIN) {
    Close(client);
  }
}

void SlowHttpClients::Read(size_t client) {
  const Client& c = clients_[client];
  if (c.socket < 0) return;
  char answer[1024];
  const ssize_t bytes = recv(c.socket, answer, sizeof answer, 0);
  if (bytes == 0 || (bytes < 0 && errno != EAGAIN)) Close(client);
}

void SlowHttpClients::Close(size_t client) {
  close(clients_[client].socket);
  clients_[client].socket = -1;
  --open_;
  closed_.push_back({client, absl::Now()});
}

}  // namespace escapement::bench
