// Clients that keep their channel, and servers that are added behind one address, as behind a
// Service of Kubernetes.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/runtime/system_runtime.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace connection_age_grpc_test {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Forwards each connection to the next of its servers.
class ForwardingPort {
 public:
  ForwardingPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Accept(); });
  }
  ~ForwardingPort() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }

  void Add(int port) {
    absl::MutexLock lock(&mutex_);
    servers_.push_back(port);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int connections() const { return connections_; }

 private:
  void Accept() {
    std::vector<std::thread> pumps;
    std::vector<int> sockets;
    for (int client; (client = accept(socket_, nullptr, nullptr)) >= 0;) {
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = Next();
      EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
      pumps.emplace_back(Pump, client, server);
      pumps.emplace_back(Pump, server, client);
      sockets.insert(sockets.end(), {client, server});
    }
    for (const int each : sockets) shutdown(each, SHUT_RDWR);
    for (std::thread& pump : pumps) pump.join();
    for (const int each : sockets) close(each);
  }

  sockaddr_in Next() {
    absl::MutexLock lock(&mutex_);
    return Loopback(servers_[static_cast<size_t>(connections_++) % servers_.size()]);
  }

  static void Pump(int from, int to) {
    char bytes[4096];
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) {
      if (send(to, bytes, static_cast<size_t>(n), MSG_NOSIGNAL) != n) break;
    }
    shutdown(to, SHUT_WR);
  }

  const int socket_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  absl::Mutex mutex_;
  std::vector<int> servers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// A server without methods, which counts the calls that it refuses.
struct Counting {
  explicit Counting(const Clock& clock, absl::Duration age) : calls(metrics, clock) {
    auto started = GrpcServer::Start({.connection_age = age, .metrics = &calls}, table);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
  }
  double Calls() {
    return metrics
        .GetCounter("escapement_rpc_handled_total", "",
                    {{"method", "unknown"}, {"code", "UNIMPLEMENTED"}})
        ->Value();
  }

  RpcTable table;
  Metrics metrics;
  CallMetrics calls;
  std::unique_ptr<GrpcServer> server;
};

grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  grpc::Slice empty;
  auto call = stub.PrepareUnaryCall(&context, "/a.B/C", grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer received;
  grpc::Status status;
  call->Finish(&received, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.error_code();
}

TEST(ConnectionAgeTest, AddedServersGetCallsOfAKeptChannel) {
  SystemRuntime runtime;
  Counting servers[] = {Counting(runtime.clock(), absl::Milliseconds(100)),
                        Counting(runtime.clock(), absl::Milliseconds(100)),
                        Counting(runtime.clock(), absl::Milliseconds(100))};
  ForwardingPort service;
  service.Add(servers[0].server->port());
  const auto channel = NewChannel(service.address());
  const auto in_process = servers[0].server->InProcessChannel();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto call_until = [&](int connections) {
    while (service.connections() < connections && absl::Now() < deadline) {
      // A call that meets the end of its connection is answered all the same.
      ASSERT_EQ(Call(channel), grpc::StatusCode::UNIMPLEMENTED);
    }
    ASSERT_EQ(service.connections(), connections) << "the channel keeps its connection";
  };
  call_until(3);
  const double before = servers[0].Calls();
  EXPECT_GT(before, 0);
  service.Add(servers[1].server->port());
  service.Add(servers[2].server->port());
  call_until(18);
  // How many calls each one gets in its time is the machine's affair.
  EXPECT_GT(servers[0].Calls(), before);
  EXPECT_GT(servers[1].Calls(), 0);
  EXPECT_GT(servers[2].Calls(), 0);
  // The channel in the process, on which REST calls come, has no age.
  EXPECT_EQ(Call(in_process), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ConnectionAgeTest, WithoutAnAgeAConnectionStays) {
  SystemRuntime runtime;
  Counting server(runtime.clock(), absl::InfiniteDuration());
  ForwardingPort service;
  service.Add(server.server->port());
  const auto channel = NewChannel(service.address());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Call(channel), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(service.connections(), 1);
}

}  // namespace connection_age_grpc_test
}  // namespace escapement
