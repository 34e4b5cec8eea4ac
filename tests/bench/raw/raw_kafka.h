// The rate of a bare producer of librdkafka: the raw limit of Kafka deliveries.

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

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_KAFKA_H_
