// ClusterConfig: how librdkafka is configured for the cluster of a Kafka target.
//
// Only the target's brokers, certificates and SASL credentials reach librdkafka, each by a property
// of its own. All other properties are fixed here. So a target can neither load plug-ins, read
// files, nor turn on debug output.
//
// Pure functions.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_CLUSTER_CONFIG_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_CLUSTER_CONFIG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kafka/client.h"

namespace escapement::storage::v1 {
class KafkaTargetRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

// A batch has at most this many bytes, unless one record is larger. A topic may take smaller
// messages than its cluster, and a batch that is too large fails all of its records.
inline constexpr size_t kKafkaBatchBytes = 128 << 10;
// The largest record, with its key and headers. Brokers take 1,048,588 bytes by default.
inline constexpr size_t kKafkaMessageBytesMax = 1'000'000;
// Records that one producer keeps until the brokers have them, and the bytes of their keys, values
// and headers. Each record takes some 1.5 KiB more. Further records are not taken.
inline constexpr size_t kKafkaQueuedRecordsMax = 20'000;
inline constexpr size_t kKafkaQueuedKibMax = 32 << 10;

struct KafkaTuning {
  absl::Duration linger = absl::Milliseconds(1);          // 0 to 5 ms
  absl::Duration message_timeout = absl::Seconds(8);      // a value of KafkaMessageTimeout
  absl::Duration unknown_topic_after = absl::Seconds(2);  // a topic may be new
  // How soon a topic that failed is looked up again: until then its records fail at once.
  absl::Duration metadata_refresh = absl::Seconds(30);
  absl::Duration connect_timeout = absl::Seconds(10);       // at least 1 s
  absl::Duration reconnect_backoff_max = absl::Seconds(2);  // the first backoff is 100 ms
};

// How long librdkafka tries to deliver a record, for an attempt with this timeout: one of a few
// values, because all records of a producer have the same. It is shorter than the attempt's timeout
// if that is at least 2.5 s. So librdkafka has given up, and says whether the record was sent,
// before the attempt ends. At least 1 s, because librdkafka looks for old records once a second.
absl::Duration KafkaMessageTimeout(absl::Duration attempt_timeout);

// INVALID_ARGUMENT: brokers or mechanism that validation does not let through.
absl::StatusOr<std::vector<KafkaProperty>> KafkaProperties(
    const storage::v1::KafkaTargetRecord& target, const KafkaTuning& tuning);

// Equal for targets that can share a producer: all of the target's properties and the message
// timeout. It contains secrets, so it must not be shown.
std::string KafkaClusterKey(const storage::v1::KafkaTargetRecord& target,
                            absl::Duration message_timeout);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_CLUSTER_CONFIG_H_
