// The properties of librdkafka by which a client reaches a Kafka cluster, and proves who it is.
//
// Only these values of a KafkaAccess reach librdkafka, each by a property of its own. A client adds
// properties with fixed values. So nobody who names a cluster can load plug-ins, read files, or
// turn on debug output.
//
// Pure functions.

#ifndef COMMON_KAFKA_CLIENT_PROPERTIES_H_
#define COMMON_KAFKA_CLIENT_PROPERTIES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

struct KafkaProperty {
  std::string name;  // as librdkafka calls it
  std::string value;
};

// Texts in PEM.
struct KafkaTls {
  std::string ca_certificates;     // empty: the authorities of the system
  std::string client_certificate;  // with its chain; empty: none
  std::string client_key;
};

struct KafkaAccess {
  std::string brokers;                         // host:port,[address]:port,...
  std::optional<KafkaTls> tls = std::nullopt;  // none: plaintext
  std::string sasl_mechanism = {};             // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; empty: none
  std::string sasl_username = {};
  std::string sasl_password = {};
};

// Appends the properties. INVALID_ARGUMENT: malformed brokers, an unknown mechanism, or SASL PLAIN
// without TLS. `whose` is the subject of such a message, for example "the target".
absl::Status AddAccessProperties(const KafkaAccess& access, absl::string_view whose,
                                 std::vector<KafkaProperty>& properties);

}  // namespace escapement

#endif  // COMMON_KAFKA_CLIENT_PROPERTIES_H_
