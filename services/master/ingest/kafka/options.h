// The options of the ingestion from Kafka.

#ifndef SERVICES_MASTER_INGEST_KAFKA_OPTIONS_H_
#define SERVICES_MASTER_INGEST_KAFKA_OPTIONS_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "common/kafka/client.h"
#include "services/master/ingest/kafka/message_decoder.h"

namespace escapement::master {

struct KafkaIngestOptions {
  KafkaAccess access;
  TopicRules topics;
  std::string group = "escapement";
  std::string error_topic;
  // Events of one call to the store.
  size_t batch_max = 1000;
  // Bytes of the messages of one call. Well below what the store takes, since messages become rows.
  size_t batch_bytes_max = 1 << 20;
  // Messages in memory, and their bytes. Beyond, nothing is read. One message may exceed the bytes.
  size_t in_flight_max = 8000;
  size_t in_flight_bytes_max = 32 << 20;
  // The longest wait before a batch is tried again.
  absl::Duration backoff_max = absl::Seconds(30);
  // A member that is silent for so long loses its partitions.
  absl::Duration session_timeout = absl::Seconds(10);
  // How long the group waits for answers about partitions that it takes away.
  absl::Duration revoke_patience = absl::Seconds(1);
  // How long the end of the process waits for answers, and then as long for the group. Together
  // less than a process may take to drain.
  absl::Duration stop_patience = absl::Seconds(5);
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_OPTIONS_H_
