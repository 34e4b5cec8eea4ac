// IsolationPeers: one healthy target and four bad ones of each of HTTP, HTTPS, SQS and Kafka. A bad
// one times out for a tenth of its events, or refuses connections, or takes them and says nothing,
// or answers one byte a second.
//
// Threads: the main thread only (it starts processes).

#ifndef TESTS_BENCH_BEDS_ISOLATION_PEERS_H_
#define TESTS_BENCH_BEDS_ISOLATION_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/kafka_arrivals.h"
#include "tests/fixtures/hostile/hostile_server.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/nginx/nginx.h"

namespace escapement::bench {

class IsolationPeers {
 public:
  struct Healthy {
    std::string name;  // "HTTP", "HTTPS", "SQS" or "Kafka"
    v1::Target target;
  };

  // `bin` holds tests/ as built; `folder` exists and is empty.
  static absl::StatusOr<std::unique_ptr<IsolationPeers>> Start(const std::string& bin,
                                                               const std::string& folder);

  const std::vector<Healthy>& healthy() const { return healthy_; }
  const std::vector<v1::Target>& bad() const { return bad_; }
  // The healthy target of HTTP; other paths of it behave as they say (tests/fixtures/behaviour.h).
  const ReceiverProcess& http_receiver() const { return *receivers_[0]; }

  // Forgets what has come to the healthy targets.
  absl::Status Clear();
  // How many events have come to the i-th healthy target, and the 99th percentile of their
  // lateness in milliseconds.
  struct Arrivals {
    uint64_t events = 0;
    double p99 = 0;
  };
  absl::StatusOr<Arrivals> ArrivalsAt(size_t i) const;

 private:
  IsolationPeers() = default;
  absl::Status StartServers(const std::string& bin, const std::string& folder);
  absl::StatusOr<std::unique_ptr<fixtures::Nginx>> TlsBefore(const ReceiverProcess& receiver,
                                                             const std::string& folder) const;
  void AddHealthy();
  void AddBad();
  v1::Target Https(const std::string& uri) const;

  const testing::TestCa ca_;
  testing::IdentityFiles identity_;
  // One each for healthy HTTP, HTTPS and SQS, and one for the bad targets.
  std::vector<std::unique_ptr<ReceiverProcess>> receivers_;
  std::unique_ptr<fixtures::Nginx> healthy_nginx_;
  std::unique_ptr<fixtures::Nginx> bad_nginx_;
  std::unique_ptr<fixtures::KafkaCluster> healthy_kafka_;
  std::unique_ptr<fixtures::KafkaCluster> bad_kafka_;
  std::unique_ptr<KafkaArrivals> kafka_arrivals_;
  int refusing_port_ = 0;
  std::vector<std::unique_ptr<fixtures::HostileServer>> servers_;
  std::vector<Healthy> healthy_;
  std::vector<v1::Target> bad_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_ISOLATION_PEERS_H_
