// Targets that are one HTTP request for each event: http, ping and slack.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/records/row_judge.h"
#include "common/secrets/record_secrets.h"
#include "common/signing/webhook_signer.h"
#include "services/master/base/limits.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {

namespace {

// Credentials that must not be stored or shown in clear.
bool CarriesCredentials(absl::string_view lower_name) {
  return lower_name == "authorization" || lower_name == "cookie";
}

class HeaderReader {
 public:
  explicit HeaderReader(FieldViolations& violations) : violations_(violations) {}

  // Adds violations of one entry of the map `field`.
  void Read(const std::string& field, const std::string& name, const std::string& value,
            bool secret) {
    const std::string entry =
        absl::StrCat(field, "[", absl::CHexEscape(absl::string_view(name).substr(0, 40)), "]");
    const std::string lower = absl::AsciiStrToLower(name);
    AddIfBad(entry, CheckHeaderName(name), violations_);
    if (!seen_.insert(lower).second) violations_.Add(entry, "is given twice (case is ignored)");
    if (!secret && CarriesCredentials(lower))
      violations_.Add(entry, "carries credentials: it belongs in secret_headers");
    AddIfBad(entry, CheckHeaderValue(value), violations_);
  }

 private:
  FieldViolations& violations_;
  std::set<std::string> seen_;
};

void ReadHeaders(const v1::HttpTarget& http, const std::string& field,
                 storage::v1::HttpTargetRecord& record, FieldViolations& violations) {
  if (http.headers().size() + http.secret_headers().size() > kHeadersMax) {
    violations.Add(absl::StrCat(field, ".headers"),
                   absl::StrCat("and secret_headers must hold at most ", kHeadersMax, " headers"));
    return;
  }
  HeaderReader reader(violations);
  const std::map<std::string, std::string> headers(http.headers().begin(), http.headers().end());
  for (const auto& [name, value] : headers) {
    reader.Read(absl::StrCat(field, ".headers"), name, value, /*secret=*/false);
    (*record.mutable_headers())[name] = value;
  }
  const std::map<std::string, std::string> secret(http.secret_headers().begin(),
                                                  http.secret_headers().end());
  for (const auto& [name, value] : secret) {
    const std::string entry = absl::StrCat(field, ".secret_headers");
    reader.Read(entry, name, value, /*secret=*/true);
    if (value.empty()) violations.Add(entry, "must have values");
    storage::v1::SecretHeaderRecord& header = *record.add_secret_headers();
    header.set_name(name);
    header.set_value(value);
  }
}

void ReadSigningSecrets(const v1::HttpTarget& http, const std::string& field,
                        storage::v1::HttpTargetRecord& record, FieldViolations& violations) {
  if (http.signing_secrets_size() > kSigningSecretsMax)
    return violations.Add(field, absl::StrCat("must hold at most ", kSigningSecretsMax));
  for (int i = 0; i < http.signing_secrets_size(); ++i) {
    const std::string& secret = http.signing_secrets(i);
    if (!IsSecretPlaceholder(secret)) {
      AddIfBad(absl::StrCat(field, "[", i, "]"), WebhookSigner::Check(secret), violations);
    }
    record.add_signing_secrets(secret);
  }
}

}  // namespace

void ReadHttp(const v1::Target& target, const std::string& field,
              storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::HttpTarget& http = target.http();
  storage::v1::HttpTargetRecord* record = target_record.mutable_http();
  AddIfBad(absl::StrCat(field, ".uri"), CheckHttpUri(http.uri()), violations);
  const std::string method = http.method().empty() ? "POST" : http.method();
  if (method != "POST" && method != "PUT" && method != "PATCH") {
    violations.Add(absl::StrCat(field, ".method"), "must be POST, PUT or PATCH");
  }
  record->set_uri(http.uri());
  record->set_method(method);
  ReadHeaders(http, field, *record, violations);
  ReadSigningSecrets(http, absl::StrCat(field, ".signing_secrets"), *record, violations);
  if (http.has_tls())
    *record->mutable_tls() = ReadTls(http.tls(), absl::StrCat(field, ".tls"), violations);
}

void WriteHttp(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::HttpTargetRecord& record = target_record.http();
  v1::HttpTarget* http = target.mutable_http();
  http->set_uri(record.uri());
  http->set_method(record.method());
  for (const auto& [name, value] : record.headers()) (*http->mutable_headers())[name] = value;
  for (const std::string& sealed : record.signing_secrets())
    http->add_signing_secrets(SecretPlaceholder(sealed));
  for (const storage::v1::SecretHeaderRecord& header : record.secret_headers())
    (*http->mutable_secret_headers())[header.name()] = SecretPlaceholder(header.value());
  if (record.has_tls()) *http->mutable_tls() = ShowTls(record.tls());
}

void ReadPing(const v1::Target& target, const std::string& field, storage::v1::TargetRecord& record,
              FieldViolations& violations) {
  if (target.ping().uri() != kHeartbeatUri)
    AddIfBad(absl::StrCat(field, ".uri"), CheckHttpUri(target.ping().uri()), violations);
  record.mutable_ping()->set_uri(target.ping().uri());
}

void WritePing(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_ping()->set_uri(record.ping().uri());
}

void ReadSlack(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& record, FieldViolations& violations) {
  const v1::SlackTarget& slack = target.slack();
  if (!IsSecretPlaceholder(slack.webhook_url()))
    AddIfBad(absl::StrCat(field, ".webhook_url"), CheckHttpUri(slack.webhook_url()), violations);
  const std::string text = slack.text().empty() ? "{{payload}}" : slack.text();
  AddIfBad(absl::StrCat(field, ".text"), CheckTemplate(text, kSlackTextCharsMax), violations);
  record.mutable_slack()->set_webhook_url(slack.webhook_url());
  record.mutable_slack()->set_text(text);
}

void WriteSlack(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_slack()->set_webhook_url(SecretPlaceholder(record.slack().webhook_url()));
  target.mutable_slack()->set_text(record.slack().text());
}

void ReadGrpc(const v1::Target& target, const std::string& field, storage::v1::TargetRecord& record,
              FieldViolations& violations) {
  AddIfBad(absl::StrCat(field, ".uri"), CheckGrpcUri(target.grpc().uri()), violations);
  record.mutable_grpc()->set_uri(target.grpc().uri());
  if (target.grpc().has_tls()) {
    *record.mutable_grpc()->mutable_tls() =
        ReadTls(target.grpc().tls(), absl::StrCat(field, ".tls"), violations);
  }
}

void WriteGrpc(const storage::v1::TargetRecord& record, v1::Target& target) {
  target.mutable_grpc()->set_uri(record.grpc().uri());
  if (record.grpc().has_tls()) *target.mutable_grpc()->mutable_tls() = ShowTls(record.grpc().tls());
}

// Targets that are queues: sqs and kafka.

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

namespace {

absl::Status CheckSmtpUri(absl::string_view uri) {
  if (uri.empty()) return absl::InvalidArgumentError("is required");
  if (uri.size() > kUriBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("must have at most ", kUriBytesMax, " bytes"));
  if (!absl::ConsumePrefix(&uri, "smtp://") && !absl::ConsumePrefix(&uri, "smtps://"))
    return absl::InvalidArgumentError("must begin with smtp:// or smtps://");
  absl::ConsumeSuffix(&uri, "/");
  return CheckHostPort(uri, /*port_needed=*/false);
}

void ReadLogin(const v1::EmailTarget& email, const std::string& field,
               storage::v1::EmailTargetRecord& record, FieldViolations& violations) {
  const bool named = !email.username().empty();
  if (named != !email.password().empty())
    violations.Add(absl::StrCat(field, ".password"), "and username need each other");
  for (const auto& [name, value] :
       {std::pair(".username", &email.username()), std::pair(".password", &email.password())}) {
    if (value->size() > kPasswordBytesMax || HasControlCharacters(*value))
      violations.Add(absl::StrCat(field, name), "is too long or has control characters");
  }
  if (email.plaintext() && named)
    violations.Add(absl::StrCat(field, ".plaintext"), "would send the password in clear");
  if (email.plaintext() && absl::StartsWith(email.smtp_uri(), "smtps:"))
    violations.Add(absl::StrCat(field, ".plaintext"), "contradicts smtps://");
  record.set_username(email.username());
  record.set_password(email.password());
  record.set_plaintext(email.plaintext());
}

}  // namespace

void ReadEmail(const v1::Target& target, const std::string& field,
               storage::v1::TargetRecord& target_record, FieldViolations& violations) {
  const v1::EmailTarget& email = target.email();
  storage::v1::EmailTargetRecord& record = *target_record.mutable_email();
  AddIfBad(absl::StrCat(field, ".smtp_uri"), CheckSmtpUri(email.smtp_uri()), violations);
  record.set_smtp_uri(std::string(absl::StripSuffix(email.smtp_uri(), "/")));
  ReadLogin(email, field, record, violations);
  AddIfBad(absl::StrCat(field, ".from"), CheckMailAddress(email.from()), violations);
  record.set_from(email.from());
  if (email.to().empty() || email.to_size() > kMailReceiversMax) {
    violations.Add(absl::StrCat(field, ".to"),
                   absl::StrCat("must have 1 to ", kMailReceiversMax, " addresses"));
  } else {
    for (int i = 0; i < email.to_size(); ++i)
      AddIfBad(absl::StrCat(field, ".to[", i, "]"), CheckMailAddress(email.to(i)), violations);
    *record.mutable_to() = email.to();
  }
  record.set_subject(email.subject().empty() ? "{{source}}" : email.subject());
  record.set_text(email.text().empty() ? "{{payload}}" : email.text());
  if (HasControlCharacters(record.subject()))
    violations.Add(absl::StrCat(field, ".subject"), "must not hold control characters");
  AddIfBad(absl::StrCat(field, ".subject"), CheckTemplate(record.subject(), kMailSubjectCharsMax),
           violations);
  AddIfBad(absl::StrCat(field, ".text"), CheckTemplate(record.text(), kMailTextCharsMax),
           violations);
  if (email.has_tls())
    *record.mutable_tls() = ReadTls(email.tls(), absl::StrCat(field, ".tls"), violations);
}

void WriteEmail(const storage::v1::TargetRecord& target_record, v1::Target& target) {
  const storage::v1::EmailTargetRecord& record = target_record.email();
  v1::EmailTarget* email = target.mutable_email();
  email->set_smtp_uri(record.smtp_uri());
  email->set_username(record.username());
  if (!record.password().empty()) email->set_password(SecretPlaceholder(record.password()));
  email->set_from(record.from());
  *email->mutable_to() = record.to();
  email->set_subject(record.subject());
  email->set_text(record.text());
  if (record.has_tls()) *email->mutable_tls() = ShowTls(record.tls());
  email->set_plaintext(record.plaintext());
}

}  // namespace escapement::master
