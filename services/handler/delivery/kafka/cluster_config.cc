#include "services/handler/delivery/kafka/cluster_config.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {
namespace {

using storage::v1::KafkaTargetRecord;

// Common timeouts (5, 10, 15, 30, 60 s, ...) less some 2 s.
constexpr std::array<int64_t, 11> kMessageTimeoutSeconds = {1,   3,   8,   13,   28,  58,
                                                            118, 298, 598, 1798, 3598};
// librdkafka finds a record that has timed out up to a second later.
constexpr absl::Duration kTimeoutMargin = absl::Milliseconds(1500);

std::vector<KafkaProperty> ProducerProperties(const KafkaTuning& tuning) {
  const std::string request = KafkaMillis(std::min(tuning.message_timeout, absl::Seconds(30)));
  return {
      {"enable.idempotence", "true"},
      {"acks", "all"},
      {"partitioner", "murmur2_random"},  // as Kafka's own clients
      {"linger.ms", KafkaMillis(tuning.linger)},
      {"batch.size", absl::StrCat(kKafkaBatchBytes)},
      {"message.max.bytes", absl::StrCat(kKafkaMessageBytesMax)},
      {"message.timeout.ms", KafkaMillis(tuning.message_timeout)},
      {"request.timeout.ms", request},
      {"socket.timeout.ms", request},
      {"topic.metadata.propagation.max.ms", KafkaMillis(tuning.unknown_topic_after)},
      {"queue.buffering.max.messages", absl::StrCat(kKafkaQueuedRecordsMax)},
      {"queue.buffering.max.kbytes", absl::StrCat(kKafkaQueuedKibMax)},
  };
}

KafkaAccess AccessOf(const KafkaTargetRecord& target) {
  KafkaAccess access = {.brokers = target.brokers(),
                        .sasl_mechanism = target.sasl_mechanism(),
                        .sasl_username = target.sasl_username(),
                        .sasl_password = target.sasl_password()};
  if (target.has_tls()) {
    access.tls = KafkaTls{.ca_certificates = target.tls().ca_certificates(),
                          .client_certificate = target.tls().client_certificate(),
                          .client_key = target.tls().client_key()};
  }
  return access;
}

void AddPart(absl::string_view part, std::string& key) {
  absl::StrAppend(&key, part.size(), ":", part);
}

}  // namespace

absl::Duration KafkaMessageTimeout(absl::Duration attempt_timeout) {
  int64_t best = kMessageTimeoutSeconds.front();
  for (const int64_t seconds : kMessageTimeoutSeconds) {
    if (absl::Seconds(seconds) + kTimeoutMargin <= attempt_timeout) best = seconds;
  }
  return absl::Seconds(best);
}

absl::StatusOr<std::vector<KafkaProperty>> KafkaProperties(const KafkaTargetRecord& target,
                                                           const KafkaTuning& tuning) {
  return KafkaClientProperties(ProducerProperties(tuning),
                               {.connect_timeout = tuning.connect_timeout,
                                .reconnect_backoff_max = tuning.reconnect_backoff_max,
                                .metadata_refresh = tuning.metadata_refresh},
                               AccessOf(target), "the target");
}

std::string KafkaClusterKey(const KafkaTargetRecord& target, absl::Duration message_timeout) {
  std::string key = absl::StrCat(absl::ToInt64Milliseconds(message_timeout), "/");
  AddPart(target.brokers(), key);
  AddPart(target.has_tls() ? "tls" : "", key);
  AddPart(target.tls().ca_certificates(), key);
  AddPart(target.tls().client_certificate(), key);
  AddPart(target.tls().client_key(), key);
  AddPart(target.sasl_mechanism(), key);
  AddPart(target.sasl_username(), key);
  AddPart(target.sasl_password(), key);
  return key;
}

}  // namespace escapement::handler
