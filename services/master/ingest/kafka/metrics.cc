#include "services/master/ingest/kafka/metrics.h"

#include <string>

namespace escapement::master {
namespace {

std::string NameOf(const std::string& name) { return "escapement_master_kafka_" + name; }

Counter& Count(Metrics& metrics, const std::string& name, const std::string& help) {
  return *metrics.GetCounter(NameOf(name) + "_total", help);
}

Gauge& Show(Metrics& metrics, const std::string& name, const std::string& help) {
  return *metrics.GetGauge(NameOf(name), help);
}

}  // namespace

KafkaIngestMetrics::KafkaIngestMetrics(Metrics& metrics)
    : messages(Count(metrics, "messages", "Messages read from Kafka")),
      events(Count(metrics, "events", "Events from Kafka made durable")),
      duplicates(Count(metrics, "duplicates", "Messages whose event existed already")),
      errors(Count(metrics, "errors", "Messages that the error topic has acknowledged")),
      retries(Count(metrics, "retries", "Batches of events from Kafka that are tried again")),
      batch_seconds(*metrics.GetHistogram(NameOf("batch_seconds"),
                                          "Time until the store's answer to a batch from Kafka",
                                          LatencyBuckets())),
      partitions(Show(metrics, "partitions", "Partitions that this process reads")),
      paused(Show(metrics, "paused_partitions", "Partitions that wait to be tried again")),
      lag(Show(metrics, "lag_messages", "Messages of its partitions that have no answer")),
      in_flight(Show(metrics, "in_flight_messages", "Messages from Kafka in memory")),
      in_flight_bytes(Show(metrics, "in_flight_bytes", "Bytes of messages from Kafka in memory")) {}

}  // namespace escapement::master
