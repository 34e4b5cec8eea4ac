// DeliveryPeers: a quick peer of each transport, each in a process of its own, and targets there.
//
//   HTTP, gRPC, SQS   tests/fixtures:receiver
//   HTTPS             nginx, HTTP/1.1 with keep-alive or HTTP/2; answers by itself
//   Kafka             librdkafka's mock brokers
//   e-mail            SmtpPeer
//
// Threads: the main thread only (it starts processes).

#ifndef TESTS_BENCH_BEDS_DELIVERY_PEERS_H_
#define TESTS_BENCH_BEDS_DELIVERY_PEERS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/receiver_process.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/nginx/nginx.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::bench {

class DeliveryPeers {
 public:
  static constexpr char kTopic[] = "bench";
  static constexpr char kSqsCredentials[] = "AKIDBENCH:bench-secret";

  // `bin` holds tests/ as built; `folder` exists and is empty.
  static absl::StatusOr<std::unique_ptr<DeliveryPeers>> Start(const std::string& bin,
                                                              const std::string& folder);

  const ReceiverProcess& receiver() const { return *receiver_; }
  // "https://localhost:port"; the other one speaks HTTP/2.
  std::string https_origin() const { return nginx_->origin(); }
  std::string http2_origin() const { return nginx2_->origin(); }
  const std::string& ca() const { return ca_.pem(); }
  std::string queue_url() const { return receiver_->http_origin() + "/123456789012/bench"; }
  const std::string& brokers() const { return kafka_->bootstraps(); }
  std::string smtp_uri() const { return "smtp://127.0.0.1:" + smtp_port_; }

  v1::Target Http() const;
  v1::Target Grpc() const;
  // `origin`: one of the two above.
  v1::Target Https(const std::string& origin) const;
  v1::Target Sqs() const;
  v1::Target Kafka() const;
  v1::Target Email() const;

 private:
  DeliveryPeers() = default;
  absl::Status StartAll(const std::string& bin, const std::string& folder);

  const testing::TestCa ca_;
  std::unique_ptr<ReceiverProcess> receiver_;
  std::unique_ptr<fixtures::Nginx> nginx_;
  std::unique_ptr<fixtures::Nginx> nginx2_;
  std::unique_ptr<fixtures::KafkaCluster> kafka_;
  std::unique_ptr<integration::ChildProcess> smtp_;
  std::string smtp_port_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_DELIVERY_PEERS_H_
