#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "services/handler/delivery/kafka/cluster_config.h"
#include "services/master/ingest/kafka/consumer.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/kafka/kafka_attempts.h"

namespace escapement::bench {
namespace {

// The headers of an event of a run; its id is also the record's key.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"ce_specversion", "1.0"},
    {"ce_type", "escapement.trigger.v1"},
    {"ce_source", "/tenants/default/schedules/nightly"},
    {"ce_time", "2026-03-01T00:00:00Z"},
    {"content-type", "application/json"},
    {"escapement_launchtime", "2026-03-01T00:00:00Z"},
    {"escapement_count", "1"},
    {"ce_id", "0123456789abcdef0123456789abcdef"},
    {"ce_subject", "2026-03-01T00:00:00Z/123456"},
    {"escapement_attempt", "1"},
    {"escapement_index", "123456"},
    {"traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"},
};

struct Reports {
  uint64_t delivered = 0;
  uint64_t failed = 0;
};

void OnReport(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  auto* reports = static_cast<Reports*>(opaque);
  message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? ++reports->delivered : ++reports->failed;
}

// As long as the platform's ids.
std::string EventIdOf(uint64_t number) {
  return absl::StrCat("0123456789abcdef", absl::Hex(number, absl::kZeroPad16));
}

rd_kafka_t* NewProducer(const std::string& brokers, Reports* reports) {
  const auto properties = handler::KafkaProperties(fixtures::KafkaTargetOf(brokers, ""), {});
  CHECK(properties.ok());
  char error[512] = {};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  for (const KafkaProperty& property : *properties) {
    CHECK(rd_kafka_conf_set(conf, property.name.c_str(), property.value.c_str(), error,
                            sizeof(error)) == RD_KAFKA_CONF_OK)
        << error;
  }
  rd_kafka_conf_set_opaque(conf, reports);
  rd_kafka_conf_set_dr_msg_cb(conf, &OnReport);
  rd_kafka_t* producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
  CHECK(producer != nullptr) << error;
  return producer;
}

void Produce(rd_kafka_t* producer, rd_kafka_topic_t* topic, const std::string& payload,
             const std::string& key) {
  rd_kafka_headers_t* headers = rd_kafka_headers_new(std::size(kHeaders));
  for (const auto& [name, value] : kHeaders) rd_kafka_header_add(headers, name, -1, value, -1);
  const rd_kafka_resp_err_t error = rd_kafka_producev(
      producer, RD_KAFKA_V_RKT(topic),
      RD_KAFKA_V_VALUE(const_cast<char*>(payload.data()), payload.size()),
      RD_KAFKA_V_KEY(key.data(), key.size()), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
  CHECK(error == RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_err2str(error);
}

}  // namespace

double RawKafka(const std::string& brokers, const std::string& topic_name, uint64_t records,
                size_t payload_bytes, uint64_t outstanding) {
  Reports reports;
  rd_kafka_t* producer = NewProducer(brokers, &reports);
  rd_kafka_topic_t* topic = rd_kafka_topic_new(producer, topic_name.c_str(), nullptr);
  const std::string payload(payload_bytes, 'r');
  const absl::Time begin = absl::Now();
  uint64_t sent = 0;
  while (reports.delivered + reports.failed < records) {
    const uint64_t answered = reports.delivered + reports.failed;
    const uint64_t more = std::min(outstanding - (sent - answered), records - sent);
    for (uint64_t i = 0; i < more; ++i) Produce(producer, topic, payload, EventIdOf(++sent));
    rd_kafka_poll(producer, more == 0 ? 100 : 0);
  }
  const double rate = static_cast<double>(records) / absl::ToDoubleSeconds(absl::Now() - begin);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(producer);
  return reports.failed == 0 ? rate : 0;
}

double RawKafkaConsume(const std::string& brokers, const std::string& topic,
                       const std::string& group, uint64_t records) {
  struct NoListener final : master::KafkaConsumer::Listener {
    void OnAssigned(const std::vector<master::KafkaPlace>&) override {}
    void OnRevoked(const std::vector<master::KafkaPlace>&, bool) override {}
    void OnTrouble(const std::string&) override {}
  } listener;
  master::KafkaConsumer::Options options;
  options.access.brokers = brokers;
  options.topics = {topic};
  options.group = group;
  auto consumer = master::KafkaConsumer::Open(options, listener);
  CHECK(consumer.ok()) << consumer.status().ToString();
  (*consumer)->Subscribe();
  absl::Time begin = absl::InfiniteFuture();
  for (uint64_t read = 0; read < records; ++read) {
    if ((*consumer)->Poll(absl::Seconds(30)) == nullptr) return 0;
    if (read == 0) begin = absl::Now();
  }
  return static_cast<double>(records) / absl::ToDoubleSeconds(absl::Now() - begin);
}

}  // namespace escapement::bench
