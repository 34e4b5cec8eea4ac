#include "tests/bench/beds/kafka_arrivals.h"

#include <librdkafka/rdkafka.h>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement::bench {
namespace {

constexpr int kPollMillis = 100;

rd_kafka_t* NewConsumer(const std::string& brokers) {
  char error[512] = {};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  const std::pair<const char*, const char*> properties[] = {{"bootstrap.servers", brokers.c_str()},
                                                            {"group.id", "arrivals"},
                                                            {"enable.auto.commit", "false"},
                                                            {"auto.offset.reset", "earliest"},
                                                            {"fetch.wait.max.ms", "1"},
                                                            {"fetch.error.backoff.ms", "1"}};
  for (const auto& [name, value] : properties) {
    CHECK(rd_kafka_conf_set(conf, name, value, error, sizeof(error)) == RD_KAFKA_CONF_OK) << error;
  }
  rd_kafka_t* consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof(error));
  CHECK(consumer != nullptr) << error;
  return consumer;
}

// 0 if the record does not say it.
int64_t LaunchMicrosOf(const rd_kafka_message_t& message) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get_last(headers, "escapement_launchtime", &value, &size) !=
          RD_KAFKA_RESP_ERR_NO_ERROR)
    return 0;
  return fixtures::ParseUtcMicros({static_cast<const char*>(value), size});
}

}  // namespace

KafkaArrivals::KafkaArrivals(const std::string& brokers, const std::string& topic, int partitions)
    : consumer_(NewConsumer(brokers)) {
  rd_kafka_poll_set_consumer(consumer_);
  rd_kafka_topic_partition_list_t* all = rd_kafka_topic_partition_list_new(partitions);
  for (int i = 0; i < partitions; ++i) {
    rd_kafka_topic_partition_list_add(all, topic.c_str(), i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  CHECK(rd_kafka_assign(consumer_, all) == RD_KAFKA_RESP_ERR_NO_ERROR);
  rd_kafka_topic_partition_list_destroy(all);
  thread_ = std::thread([this] { Run(); });
}

KafkaArrivals::~KafkaArrivals() {
  stopping_ = true;
  thread_.join();
  rd_kafka_consumer_close(consumer_);
  rd_kafka_destroy(consumer_);
}

std::vector<double> KafkaArrivals::Lateness() const {
  absl::MutexLock lock(&mutex_);
  return lateness_;
}

void KafkaArrivals::Clear() {
  absl::MutexLock lock(&mutex_);
  lateness_.clear();
}

void KafkaArrivals::Run() {
  while (!stopping_) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer_, kPollMillis);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      const int64_t launch = LaunchMicrosOf(*message);
      CHECK_GT(launch, 0);
      absl::MutexLock lock(&mutex_);
      lateness_.push_back(static_cast<double>(absl::ToUnixMicros(absl::Now()) - launch));
    }
    rd_kafka_message_destroy(message);
  }
}

}  // namespace escapement::bench
