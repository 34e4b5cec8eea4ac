// The flags of the ingestion from Kafka, and the options that they describe.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_FLAGS_H_
#define SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/master/ingest/kafka/options.h"

namespace escapement::master {

// Appends one sentence for each flag with an invalid value.
void ValidateKafkaIngestFlags(std::vector<std::string>& errors);

// nullopt: the ingestion is off. Reads the files that the flags name. An error names the file and
// never quotes its content.
absl::StatusOr<std::optional<KafkaIngestOptions>> KafkaIngestOptionsFromFlags();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_FLAGS_H_
