// The demo's schedules that differ only in their targets: HTTP, gRPC, SQS and Kafka. All fire each
// second from a start to an end, so their occurrences are known.
//
// The queue is local-aws-sqs, the topic is on librdkafka's mock cluster. Both note arrivals in
// milliseconds; the end of the millisecond counts.

#ifndef TESTS_E2E_TRANSPORT_PHASE_H_
#define TESTS_E2E_TRANSPORT_PHASE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/consumer.h"
#include "tests/e2e/judge.h"
#include "tests/integration/api_client.h"

namespace escapement::e2e {

struct TransportPhase {
  std::string bin;                            // holds tests/fixtures/kafka/kafka_cluster_main
  absl::Duration length = absl::Seconds(10);  // from the schedules' start to their end
  // Length of the phase; events that have not come by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
};

// Returns one verdict for each target.
absl::StatusOr<std::vector<Verdict>> RunTransports(const TransportPhase& phase,
                                                   integration::ApiClient& api,
                                                   const Consumer& consumer);

}  // namespace escapement::e2e

#endif  // TESTS_E2E_TRANSPORT_PHASE_H_
