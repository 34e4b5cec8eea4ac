// IsolationPeers: one healthy target of each of HTTP, HTTPS, SQS and Kafka, and bad ones of the
// same kinds: each kind has one that times out for a tenth of its events, one that refuses
// connections, one that takes them and says nothing, and one that answers one byte a second.
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
#include "tests/bench/beds/kafka_arrivals.h"
#include "tests/bench/beds/receiver_process.h"
#include "tests/fixtures/hostile_server.h"
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
  // Of healthy HTTP, HTTPS and SQS, and of all bad ones.
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
