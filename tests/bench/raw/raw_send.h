// Rates of bare clients against the same receiver: the raw limits of delivery.

#ifndef TESTS_BENCH_RAW_RAW_SEND_H_
#define TESTS_BENCH_RAW_RAW_SEND_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace escapement::bench {

// One bidirectional gRPC stream with 4,096 unanswered deliveries. Returns deliveries per second.
double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes);

// Libcurl multi on one thread, with `in_flight` requests that have a delivery's headers. Returns
// requests per second; 0 if one was not answered by 200. `ca`: PEM of the authority of an https
// origin; HTTP/2 is used if the origin offers it.
double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight,
               const std::string& ca = "");

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_SEND_H_
