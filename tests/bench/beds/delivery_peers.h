// DeliveryPeers is a quick peer of each transport.
//
// ReceiverProcess: //tests/fixtures:receiver as a process of its own, and its counters.

#ifndef TESTS_BENCH_BEDS_DELIVERY_PEERS_H_
#define TESTS_BENCH_BEDS_DELIVERY_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/v1/resources.pb.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/nginx/nginx.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::bench {

struct ReceiverCounts {
  uint64_t received = 0;
  uint64_t distinct = 0;
  uint64_t duplicates = 0;
  uint64_t early = 0;
  int64_t first_wall_micros = 0;
  int64_t last_wall_micros = 0;
  double late_p50 = 0;  // microseconds
  double late_p99 = 0;
  double late_p999 = 0;
  double late_max = 0;
};

// The counts of a worker (tests/fixtures/worker.h).
struct WorkCounts {
  uint64_t arrivals = 0;
  uint64_t distinct = 0;
  uint64_t ended = 0;
  uint64_t answered = 0;  // completions that were answered
  int64_t out_max = 0;
  int64_t out_max_of_key = 0;
  double out_event_seconds = 0;
  int64_t first_wall_micros = 0;
  int64_t last_wall_micros = 0;
  uint64_t turnovers = 0;
  double turnover_p50 = 0;  // microseconds
  double turnover_p99 = 0;
};

struct ArrivalTimes {
  int64_t launch_micros = 0;
  int64_t wall_micros = 0;
};

class ReceiverProcess {
 public:
  // `bin` holds tests/fixtures/receiver.
  static absl::StatusOr<std::unique_ptr<ReceiverProcess>> Start(
      const std::string& bin, const std::vector<std::string>& arguments = {});

  std::string http_origin() const { return "http://" + http_address_; }
  const std::string& grpc_target() const { return grpc_address_; }

  absl::StatusOr<ReceiverCounts> Counts() const;
  // Only for a receiver with --worker.
  absl::StatusOr<WorkCounts> Work() const;
  // Arrivals from all sources that begin with `source`, in order.
  absl::StatusOr<std::vector<ArrivalTimes>> Arrivals(const std::string& source = "") const;
  // Lateness of the events from that source, in order of arrival: arrival less launch time, in
  // microseconds.
  absl::StatusOr<std::vector<int64_t>> Lateness(const std::string& source) const;
  absl::Status Clear() const;

 private:
  ReceiverProcess() = default;
  std::unique_ptr<integration::ChildProcess> process_;
  std::string http_address_;
  std::string grpc_address_;
};

// DeliveryPeers: a quick peer of each transport, each in a process of its own, and targets there.
//
//   HTTP, gRPC, SQS   tests/fixtures:receiver
//   HTTPS             nginx with keep-alive; answers by itself
//   Kafka             librdkafka's mock brokers
//   e-mail            SmtpPeer
//
// Threads: the main thread only (it starts processes).

class DeliveryPeers {
 public:
  static constexpr char kTopic[] = "bench";
  static constexpr char kSqsCredentials[] = "AKIDBENCH:bench-secret";

  // `bin` holds tests/ as built; `folder` exists and is empty.
  static absl::StatusOr<std::unique_ptr<DeliveryPeers>> Start(const std::string& bin,
                                                              const std::string& folder);

  const ReceiverProcess& receiver() const { return *receiver_; }
  // "https://localhost:port"
  std::string https_origin() const { return nginx_->origin(); }
  const std::string& ca() const { return ca_.pem(); }
  std::string queue_url() const { return receiver_->http_origin() + "/123456789012/bench"; }
  const std::string& brokers() const { return kafka_->bootstraps(); }
  std::string smtp_uri() const { return "smtp://127.0.0.1:" + smtp_port_; }

  v1::Target Http() const;
  v1::Target Grpc() const;
  v1::Target Https() const;
  v1::Target Sqs() const;
  v1::Target Kafka() const;
  v1::Target Email() const;

 private:
  DeliveryPeers() = default;
  absl::Status StartAll(const std::string& bin, const std::string& folder);

  const testing::TestCa ca_;
  std::unique_ptr<ReceiverProcess> receiver_;
  std::unique_ptr<fixtures::Nginx> nginx_;
  std::unique_ptr<fixtures::KafkaCluster> kafka_;
  std::unique_ptr<integration::ChildProcess> smtp_;
  std::string smtp_port_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_DELIVERY_PEERS_H_
