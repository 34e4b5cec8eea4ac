// Targets that are queues: sqs and kafka.

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/secrets/record_secrets.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace {

// scheme://host:port
absl::string_view OriginOf(absl::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme == absl::string_view::npos) return {};
  return uri.substr(0, uri.find_first_of("/?#", scheme + 3));
}

// "eu-central-1" of https://sqs.eu-central-1.amazonaws.com/...; "" of other hosts.
std::string RegionOf(absl::string_view queue_url) {
  absl::string_view host = OriginOf(queue_url);
  if (!absl::ConsumePrefix(&host, "https://sqs.") ||
      !(absl::ConsumeSuffix(&host, ".amazonaws.com") ||
        absl::ConsumeSuffix(&host, ".amazonaws.com.cn")) ||
      absl::StrContains(host, ".")) {
    return "";
  }
  return std::string(host);
}

absl::Status CheckRegion(absl::string_view region) {
  if (region.empty())
    return absl::InvalidArgumentError("is required, because queue_url does not tell it");
  const bool good = region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
                      return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                             absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
                    });
  return good ? absl::OkStatus()
              : absl::InvalidArgumentError("must have at most 64 of a-z, 0-9 and '-'");
}

absl::Status CheckCredentials(absl::string_view credentials) {
  const std::vector<absl::string_view> parts = absl::StrSplit(credentials, absl::MaxSplits(':', 2));
  const bool printable = std::all_of(credentials.begin(), credentials.end(), absl::ascii_isgraph);
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty() || !printable ||
      credentials.size() > kCredentialsBytesMax) {
    return absl::InvalidArgumentError(
        "must be {access key id}:{secret access key}, or these and :{session token}, without "
        "blanks");
  }
  return absl::OkStatus();
}

// The characters that SQS takes in message groups.
absl::Status CheckMessageGroup(absl::string_view group) {
  const bool good =
      group.size() <= 128 && std::all_of(group.begin(), group.end(), absl::ascii_isgraph);
  return good ? absl::OkStatus()
              : absl::InvalidArgumentError("must have at most 128 printable ASCII characters");
}

absl::Status CheckBrokers(absl::string_view brokers) {
  if (brokers.empty()) return absl::InvalidArgumentError("is required");
  if (brokers.size() > kBrokersBytesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("must have at most ", kBrokersBytesMax, " bytes"));
  for (const absl::string_view broker : absl::StrSplit(brokers, ',')) {
    if (!IsUriText(broker)) return absl::InvalidArgumentError("holds a blank or control character");
    if (absl::Status status = CheckHostPort(broker, /*port_needed=*/true); !status.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(status.message(), "; must be host:port, separated by commas"));
  }
  return absl::OkStatus();
}

// The names that Kafka allows.
absl::Status CheckTopic(absl::string_view topic) {
  const bool good = std::all_of(topic.begin(), topic.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (topic.empty() || topic.size() > 249 || !good || topic == "." || topic == "..")
    return absl::InvalidArgumentError(
        "must have 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and not be . or ..");
  return absl::OkStatus();
}

void ReadSasl(const v1::KafkaTarget& kafka, const std::string& field,
              storage::v1::KafkaTargetRecord& record, FieldViolations& violations) {
  const v1::KafkaTarget::Sasl& sasl = kafka.sasl();
  const bool plain = sasl.mechanism() == "PLAIN";
  if (!plain && sasl.mechanism() != "SCRAM-SHA-256" && sasl.mechanism() != "SCRAM-SHA-512") {
    violations.Add(absl::StrCat(field, ".mechanism"),
                   "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512");
  }
  if (plain && !kafka.has_tls())
    violations.Add(absl::StrCat(field, ".mechanism"), "PLAIN sends the password, so it needs tls");
  for (const auto& [name, value] :
       {std::pair(".username", &sasl.username()), std::pair(".password", &sasl.password())}) {
    if (value->empty()) violations.Add(absl::StrCat(field, name), "is required");
    if (value->size() > kPasswordBytesMax || HasControlCharacters(*value))
      violations.Add(absl::StrCat(field, name), "is too long or has control characters");
  }
  record.set_sasl_mechanism(sasl.mechanism());
  record.set_sasl_username(sasl.username());
  record.set_sasl_password(sasl.password());
}

}  // namespace

void ReadSqs(const v1::Target& target, const std::string& field,
             storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::SqsTarget& sqs = target.sqs();
  storage::v1::SqsTargetRecord& record = *target_record.mutable_sqs();
  AddIfBad(absl::StrCat(field, ".queue_url"), CheckHttpUri(sqs.queue_url()), violations);
  if (absl::StrContains(sqs.queue_url(), "?"))
    violations.Add(absl::StrCat(field, ".queue_url"), "must not have a query");
  record.set_queue_url(sqs.queue_url());
  record.set_region(sqs.region().empty() ? RegionOf(sqs.queue_url()) : sqs.region());
  AddIfBad(absl::StrCat(field, ".region"), CheckRegion(record.region()), violations);
  record.set_endpoint(sqs.endpoint().empty() ? std::string(OriginOf(sqs.queue_url()))
                                             : sqs.endpoint());
  if (!sqs.endpoint().empty()) {
    AddIfBad(absl::StrCat(field, ".endpoint"), CheckHttpUri(sqs.endpoint()), violations);
    if (OriginOf(sqs.endpoint()) != absl::StripSuffix(sqs.endpoint(), "/"))
      violations.Add(absl::StrCat(field, ".endpoint"), "must not have a path or query");
    record.set_endpoint(std::string(OriginOf(sqs.endpoint())));
  }
  if (!sqs.credentials().empty() && !IsSecretPlaceholder(sqs.credentials()))
    AddIfBad(absl::StrCat(field, ".credentials"), CheckCredentials(sqs.credentials()), violations);
  record.set_credentials(sqs.credentials());
  if (!sqs.message_group_id().empty()) {
    const std::string group = absl::StrCat(field, ".message_group_id");
    if (!absl::EndsWith(sqs.queue_url(), ".fifo"))
      violations.Add(group, "is for FIFO queues, whose names end with .fifo");
    AddIfBad(group, CheckMessageGroup(sqs.message_group_id()), violations);
  }
  record.set_message_group_id(sqs.message_group_id());
}

void WriteSqs(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::SqsTargetRecord& record = target_record.sqs();
  v1::SqsTarget* sqs = target.mutable_sqs();
  sqs->set_queue_url(record.queue_url());
  sqs->set_region(record.region());
  sqs->set_endpoint(record.endpoint());
  if (!record.credentials().empty()) sqs->set_credentials(SecretPlaceholder(record.credentials()));
  sqs->set_message_group_id(record.message_group_id());
}

void ReadKafka(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::KafkaTarget& kafka = target.kafka();
  storage::v1::KafkaTargetRecord& record = *target_record.mutable_kafka();
  AddIfBad(absl::StrCat(field, ".brokers"), CheckBrokers(kafka.brokers()), violations);
  AddIfBad(absl::StrCat(field, ".topic"), CheckTopic(kafka.topic()), violations);
  if (kafka.key().size() > kKafkaKeyBytesMax) {
    violations.Add(absl::StrCat(field, ".key"),
                   absl::StrCat("must have at most ", kKafkaKeyBytesMax, " bytes"));
  }
  record.set_brokers(kafka.brokers());
  record.set_topic(kafka.topic());
  record.set_key(kafka.key());
  if (kafka.has_tls())
    *record.mutable_tls() = ReadTls(kafka.tls(), absl::StrCat(field, ".tls"), violations);
  if (kafka.has_sasl()) ReadSasl(kafka, absl::StrCat(field, ".sasl"), record, violations);
}

void WriteKafka(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::KafkaTargetRecord& record = target_record.kafka();
  v1::KafkaTarget* kafka = target.mutable_kafka();
  kafka->set_brokers(record.brokers());
  kafka->set_topic(record.topic());
  kafka->set_key(record.key());
  if (record.has_tls()) *kafka->mutable_tls() = ShowTls(record.tls());
  if (record.sasl_mechanism().empty()) return;
  kafka->mutable_sasl()->set_mechanism(record.sasl_mechanism());
  kafka->mutable_sasl()->set_username(record.sasl_username());
  kafka->mutable_sasl()->set_password(SecretPlaceholder(record.sasl_password()));
}

}  // namespace escapement::master
