// What bare clients do against the same receiver: the raw limits of delivery.

#ifndef TESTS_BENCH_RAW_RAW_SEND_H_
#define TESTS_BENCH_RAW_RAW_SEND_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace escapement::bench {

// One bidirectional gRPC stream, 4,096 deliveries unanswered at a time: deliveries per second.
double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes);

// libcurl multi on one thread, `in_flight` requests at a time with the headers of a delivery:
// requests per second.
double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_SEND_H_
