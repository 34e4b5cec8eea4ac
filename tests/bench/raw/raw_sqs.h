// The raw limit of SQS deliveries: bare SendMessageBatch requests, signed by libcurl.

#ifndef TESTS_BENCH_RAW_RAW_SQS_H_
#define TESTS_BENCH_RAW_RAW_SQS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace escapement::bench {

// Sends `messages`, ten in a request, with the attributes of a delivery. Libcurl multi on one
// thread, with `in_flight` requests whose bodies are made before the time begins. Returns messages
// per second; 0 if a request was not answered by 200.
double RawSqs(const std::string& origin, const std::string& queue_url,
              const std::string& credentials, uint64_t messages, size_t payload_bytes,
              int in_flight);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_SQS_H_
