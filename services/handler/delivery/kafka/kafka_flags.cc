#include "services/handler/delivery/kafka/kafka_flags.h"

#include <utility>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "services/handler/delivery/kafka/kafka_transport.h"

ABSL_FLAG(
    int, kafka_producers_max, 64,
    "Kafka clusters (brokers, certificates, credentials, class of timeout) that are "
    "connected to at once; each takes some 5 to 10 threads and at most 64 MiB of waiting records");
ABSL_FLAG(absl::Duration, kafka_linger, absl::Milliseconds(1),
          "how long a Kafka record waits for others of its batch");

namespace escapement::handler {

void ValidateKafkaFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_kafka_producers_max) < 1 ||
      absl::GetFlag(FLAGS_kafka_producers_max) > 1024) {
    errors.push_back("--kafka_producers_max: must be from 1 to 1024");
  }
  if (absl::GetFlag(FLAGS_kafka_linger) < absl::ZeroDuration() ||
      absl::GetFlag(FLAGS_kafka_linger) > absl::Milliseconds(100)) {
    errors.push_back("--kafka_linger: must be from 0 to 100 ms");
  }
}

std::unique_ptr<DeliveryTransport> NewKafkaTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  KafkaTransport::Options options;
  options.addresses = std::move(addresses);
  options.producers_max = static_cast<size_t>(absl::GetFlag(FLAGS_kafka_producers_max));
  options.linger = absl::GetFlag(FLAGS_kafka_linger);
  return std::make_unique<KafkaTransport>(options);
}

}  // namespace escapement::handler
