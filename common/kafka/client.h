// NewKafkaClient: makes a client of librdkafka from properties that may have secrets.
//
// Threads: any.

#ifndef COMMON_KAFKA_CLIENT_H_
#define COMMON_KAFKA_CLIENT_H_

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/kafka/client_properties.h"

namespace escapement {

// A text of librdkafka is cut to this.
inline constexpr size_t kKafkaErrorTextMax = 512;

// Makes a client; it connects later. `prepare` sets callbacks. Librdkafka's log is dropped: it
// repeats what errors say, and its lines may have what peers sent. Reading the certificates of the
// system takes some 30 ms. INVALID_ARGUMENT: librdkafka refuses a property, e.g. a certificate.
// RESOURCE_EXHAUSTED: no memory or thread. No error has the value of a property.
absl::StatusOr<rd_kafka_t*> NewKafkaClient(rd_kafka_type_t type,
                                           std::vector<KafkaProperty> properties,
                                           const std::string& password,
                                           absl::FunctionRef<void(rd_kafka_conf_t*)> prepare);

// A text of librdkafka or a broker, fit for errors and log lines: *** instead of the password (if
// that is not empty), without control characters, and cut.
std::string KafkaErrorText(absl::string_view text, const std::string& password);

}  // namespace escapement

#endif  // COMMON_KAFKA_CLIENT_H_
