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

std::string Millis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration));
}

void AddFixed(const KafkaTuning& tuning, std::vector<KafkaProperty>& properties) {
  const absl::Duration request = std::min(tuning.message_timeout, absl::Seconds(30));
  const KafkaProperty fixed[] = {
      {"client.id", "escapement"},
      {"enable.idempotence", "true"},
      {"acks", "all"},
      {"partitioner", "murmur2_random"},  // as Kafka's own clients
      {"linger.ms", Millis(tuning.linger)},
      {"batch.size", absl::StrCat(kKafkaBatchBytes)},
      {"message.max.bytes", absl::StrCat(kKafkaMessageBytesMax)},
      {"message.timeout.ms", Millis(tuning.message_timeout)},
      {"request.timeout.ms", Millis(request)},
      {"socket.timeout.ms", Millis(request)},
      {"socket.connection.setup.timeout.ms", Millis(tuning.connect_timeout)},
      {"socket.keepalive.enable", "true"},
      {"socket.nagle.disable", "true"},
      {"reconnect.backoff.ms", "100"},
      {"reconnect.backoff.max.ms", Millis(tuning.reconnect_backoff_max)},
      {"topic.metadata.propagation.max.ms", Millis(tuning.unknown_topic_after)},
      {"topic.metadata.refresh.interval.ms", Millis(tuning.metadata_refresh)},
      {"queue.buffering.max.messages", absl::StrCat(kKafkaQueuedRecordsMax)},
      {"queue.buffering.max.kbytes", absl::StrCat(kKafkaQueuedKibMax)},
      {"log.connection.close", "false"},
  };
  properties.insert(properties.end(), std::begin(fixed), std::end(fixed));
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
  std::vector<KafkaProperty> properties;
  AddFixed(tuning, properties);
  if (absl::Status wrong = AddAccessProperties(AccessOf(target), "the target", properties);
      !wrong.ok())
    return wrong;
  return properties;
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
