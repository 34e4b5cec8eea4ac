// SlowClients: clients that keep the ports of a service busy and ask nothing: HTTP clients that
// send one byte of a request per second, and idle gRPC connections.
//
// HTTP clients connect within the first 15 s, which is less than PathStages waits before it
// measures lateness. An HTTP client whose connection the server ends connects again 0.1 s later,
// since HttpServer ends requests that take too long and gives places to new connections.
//
// Threads: one of its own for all HTTP clients. Call the methods from one thread.

#ifndef TESTS_BENCH_BEDS_SLOW_CLIENTS_H_
#define TESTS_BENCH_BEDS_SLOW_CLIENTS_H_

#include <netinet/in.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::bench {

class SlowHttpClients;

class SlowClients {
 public:
  struct Options {
    std::string http;  // "127.0.0.1:port"
    std::string grpc;  // "host:port"
    int http_clients = 1000;
    int grpc_connections = 1000;
  };

  // Returns when all gRPC connections are open; HTTP clients then connect one after the other.
  static absl::StatusOr<std::unique_ptr<SlowClients>> Start(const Options& options);
  ~SlowClients();  // ends all connections

  // FAILED_PRECONDITION if fewer than nine of ten connections of a kind are open. Call it 15 s
  // after Start at the earliest.
  absl::Status CheckConnected() const;
  // Connections that HTTP clients have opened since Start, the first ones included.
  uint64_t http_connects() const;

 private:
  explicit SlowClients(const Options& options);
  absl::Status Connect();

  const Options options_;
  std::unique_ptr<SlowHttpClients> http_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

// Lets this process and its later children have at least so many open files. RESOURCE_EXHAUSTED if
// the system does not allow it.
absl::Status AllowOpenFiles(uint64_t files);

// SlowHttpClients: one thread that plays many HTTP clients, each of which sends one byte of a
// request per second.
//
// Threads: one of its own. The methods may be called from any thread.

class SlowHttpClients {
 public:
  // `address` is "host:port" with an IPv4 address.
  static absl::StatusOr<std::unique_ptr<SlowHttpClients>> Start(const std::string& address,
                                                                int clients);
  ~SlowHttpClients();  // ends all connections

  // Connections that are open now. All clients have connected 15 s after the start.
  int open() const { return open_; }
  // Connections opened since the start.
  uint64_t connects() const { return connects_; }

 private:
  struct Client {
    int socket = -1;  // -1: waits to connect
    size_t sent = 0;  // bytes of the request
  };
  struct Closed {
    size_t client;
    absl::Time since;
  };

  SlowHttpClients(const sockaddr_in& server, int clients);
  void Run();
  void Connect(size_t client);
  // Connects the clients that have waited long enough.
  void ConnectAgain(absl::Time now);
  // Sends the next byte of the client's request.
  void Send(size_t client);
  // Reads the server's answer or the end of the connection.
  void Read(size_t client);
  void Close(size_t client);

  const sockaddr_in server_;
  const int epoll_;
  std::vector<Client> clients_;  // only on the thread
  size_t begun_ = 0;             // clients that have connected once; only on the thread
  std::deque<Closed> closed_;    // only on the thread; the oldest first
  std::atomic<int> open_{0};
  std::atomic<uint64_t> connects_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_SLOW_CLIENTS_H_
