// Metrics of the ingestion from Kafka.

#ifndef SERVICES_MASTER_INGEST_KAFKA_METRICS_H_
#define SERVICES_MASTER_INGEST_KAFKA_METRICS_H_

#include "common/metrics/metrics.h"

namespace escapement::master {

struct KafkaIngestMetrics {
  // `metrics` outlives it.
  explicit KafkaIngestMetrics(Metrics& metrics);

  Counter& messages;  // read
  Counter& events;    // made durable
  Counter& duplicates;
  Counter& errors;           // acknowledged by the error topic
  Counter& retries;          // batches that are tried again
  Histogram& batch_seconds;  // from sending a batch until the store's answer
  Gauge& partitions;         // assigned to this process
  Gauge& paused;             // partitions that wait to be tried again
  Gauge& lag;                // messages of its partitions that have no answer
  Gauge& in_flight;          // messages in memory
  Gauge& in_flight_bytes;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_METRICS_H_
