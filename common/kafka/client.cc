#include "common/kafka/client.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/memory_file.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace escapement {

namespace {

// host:port,[address]:port,... A "scheme://" would choose another protocol than the given one.
bool IsBrokers(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view(".-_:,[]").find(c) != absl::string_view::npos;
  });
}

bool IsMechanism(absl::string_view mechanism) {
  return mechanism == "PLAIN" || mechanism == "SCRAM-SHA-256" || mechanism == "SCRAM-SHA-512";
}

void AddConnections(const KafkaConnections& connections, std::vector<KafkaProperty>& properties) {
  properties.push_back({"client.id", "escapement"});
  properties.push_back(
      {"socket.connection.setup.timeout.ms", KafkaMillis(connections.connect_timeout)});
  properties.push_back({"socket.keepalive.enable", "true"});
  properties.push_back({"socket.nagle.disable", "true"});
  properties.push_back({"reconnect.backoff.ms", "100"});
  properties.push_back(
      {"reconnect.backoff.max.ms", KafkaMillis(connections.reconnect_backoff_max)});
  properties.push_back(
      {"topic.metadata.refresh.interval.ms", KafkaMillis(connections.metadata_refresh)});
  properties.push_back({"log.connection.close", "false"});
}

void AddAccess(const KafkaAccess& access, std::vector<KafkaProperty>& properties) {
  const bool sasl = !access.sasl_mechanism.empty();
  properties.push_back({"bootstrap.servers", access.brokers});
  properties.push_back(
      {"security.protocol",
       absl::StrCat(sasl ? "sasl_" : "", access.tls.has_value() ? "ssl" : "plaintext")});
  if (access.tls.has_value()) {
    properties.push_back({"enable.ssl.certificate.verification", "true"});
    properties.push_back({"ssl.endpoint.identification.algorithm", "https"});
    if (!access.tls->ca_certificates.empty())
      properties.push_back({"ssl.ca.pem", access.tls->ca_certificates});
    if (!access.tls->client_certificate.empty()) {
      properties.push_back({"ssl.certificate.pem", access.tls->client_certificate});
      properties.push_back({"ssl.key.pem", access.tls->client_key});
    }
  }
  if (sasl) {
    properties.push_back({"sasl.mechanisms", access.sasl_mechanism});
    properties.push_back({"sasl.username", access.sasl_username});
    properties.push_back({"sasl.password", access.sasl_password});
  }
}

}  // namespace

absl::Status CheckKafkaAccess(const KafkaAccess& access, absl::string_view whose) {
  if (!IsBrokers(access.brokers))
    return absl::InvalidArgumentError(absl::StrCat(whose, "'s brokers are malformed"));
  if (!access.sasl_mechanism.empty() && !IsMechanism(access.sasl_mechanism))
    return absl::InvalidArgumentError(absl::StrCat(whose, "'s SASL mechanism is not supported"));
  if (access.sasl_mechanism == "PLAIN" && !access.tls.has_value())
    return absl::InvalidArgumentError("SASL PLAIN needs TLS");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<KafkaProperty>> KafkaClientProperties(
    std::vector<KafkaProperty> own, const KafkaConnections& connections, const KafkaAccess& access,
    absl::string_view whose) {
  RETURN_IF_ERROR(CheckKafkaAccess(access, whose));
  AddConnections(connections, own);
  AddAccess(access, own);
  return own;
}

std::string KafkaMillis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration));
}

namespace {

void DropLog(const rd_kafka_t*, int, const char*, const char*) {}

}  // namespace

absl::StatusOr<rd_kafka_t*> NewKafkaClient(rd_kafka_type_t type,
                                           std::vector<KafkaProperty> properties,
                                           const std::string& password,
                                           absl::FunctionRef<void(rd_kafka_conf_t*)> prepare) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, &DropLog);
  prepare(conf);
  char error[kKafkaErrorTextMax] = {};
  std::unique_ptr<MemoryFile> chain;
  for (KafkaProperty& property : properties) {
    if (property.name == "ssl.certificate.pem") {
      // librdkafka would take only the first certificate of a text. It reads a file's whole chain.
      chain = std::make_unique<MemoryFile>(property.value);
      property = {"ssl.certificate.location", chain->path()};
    }
    if (rd_kafka_conf_set(conf, property.name.c_str(), property.value.c_str(), error,
                          sizeof(error)) != RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      // librdkafka's text has the value, which may be a secret.
      return absl::InvalidArgumentError(absl::StrCat("librdkafka refuses ", property.name));
    }
  }
  rd_kafka_t* client = rd_kafka_new(type, conf, error, sizeof(error));
  if (client != nullptr) return client;
  const rd_kafka_resp_err_t code = rd_kafka_last_error();
  rd_kafka_conf_destroy(conf);
  const std::string text = KafkaErrorText(error, password);
  return code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE ? absl::ResourceExhaustedError(text)
                                                      : absl::InvalidArgumentError(text);
}

std::string KafkaErrorText(absl::string_view text, const std::string& password) {
  if (password.empty()) return CleanText(text, kKafkaErrorTextMax);
  return CleanText(absl::StrReplaceAll(text, {{password, "***"}}), kKafkaErrorTextMax);
}

}  // namespace escapement
