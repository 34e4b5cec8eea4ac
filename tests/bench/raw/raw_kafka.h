// The rates of a bare producer and a bare consumer of librdkafka: the raw limits of deliveries to
// Kafka, and of events from it.

#ifndef TESTS_BENCH_RAW_RAW_KAFKA_H_
#define TESTS_BENCH_RAW_RAW_KAFKA_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace escapement::bench {

// Produces `records` with as many headers as a delivery has, with the transport's configuration. At
// most `outstanding` are not reported at any time. One thread produces and takes the reports.
// Returns records per second, 0 if one was not delivered.
double RawKafka(const std::string& brokers, const std::string& topic, uint64_t records,
                size_t payload_bytes, uint64_t outstanding);

// Reads `records` of a topic from its beginning, as a member of this group, with the ingestion's
// configuration. Returns records per second from the first one on, 0 if they do not come.
double RawKafkaConsume(const std::string& brokers, const std::string& topic,
                       const std::string& group, uint64_t records);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_KAFKA_H_
