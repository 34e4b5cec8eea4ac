// Rates of the handler's transports alone, without store and services, in deliveries per second.

#ifndef TESTS_BENCH_RAW_TRANSPORT_RATES_H_
#define TESTS_BENCH_RAW_TRANSPORT_RATES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::bench {

// Keeps `outstanding` attempts with the transport, sent in batches as the handler does, until
// `deliveries` have been accepted. Returns 0 if one was not.
double TransportRate(handler::DeliveryTransport& transport, const std::string& uri,
                     uint64_t deliveries, size_t payload_bytes, uint64_t outstanding);

// The same with these attempts.
double TransportRate(handler::DeliveryTransport& transport,
                     std::vector<handler::DeliveryAttempt> attempts, uint64_t outstanding);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_TRANSPORT_RATES_H_
