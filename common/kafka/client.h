// The properties of librdkafka that all clients have: by which they reach a Kafka cluster, prove
// who they are, and keep their connections.
//
// Only these values of a KafkaAccess reach librdkafka, each by a property of its own. All other
// properties have fixed values. So nobody who names a cluster can load plug-ins, read files, or
// turn on debug output.
//
// Pure functions.

#ifndef COMMON_KAFKA_CLIENT_H_
#define COMMON_KAFKA_CLIENT_H_

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

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

// INVALID_ARGUMENT: malformed brokers, an unknown mechanism, or SASL PLAIN without TLS. `whose` is
// the subject of such a message, for example "the target".
absl::Status CheckKafkaAccess(const KafkaAccess& access, absl::string_view whose);

struct KafkaConnections {
  absl::Duration connect_timeout = absl::Seconds(10);       // at least 1 s
  absl::Duration reconnect_backoff_max = absl::Seconds(2);  // the first backoff is 100 ms
  // How often the brokers are asked for topics and their partitions.
  absl::Duration metadata_refresh = absl::Seconds(30);
};

// All properties of a client: its `own`, which have fixed values, those of its connections, and
// those of the access. INVALID_ARGUMENT as CheckKafkaAccess.
absl::StatusOr<std::vector<KafkaProperty>> KafkaClientProperties(
    std::vector<KafkaProperty> own, const KafkaConnections& connections, const KafkaAccess& access,
    absl::string_view whose);

// A duration as librdkafka's properties in ms have it.
std::string KafkaMillis(absl::Duration duration);

// NewKafkaClient: makes a client of librdkafka from properties that may have secrets.
//
// Threads: any.

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
