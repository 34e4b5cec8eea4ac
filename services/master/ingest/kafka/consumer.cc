#include "services/master/ingest/kafka/consumer.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/kafka/client.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kCloseStep = absl::Milliseconds(50);
// A request without an answer is sent again on a new connection. librdkafka gives those that wait
// for the group more time.
constexpr absl::Duration kAnswerMax = absl::Seconds(10);

struct ListDeleter {
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
using List = std::unique_ptr<rd_kafka_topic_partition_list_t, ListDeleter>;

List ListOf(const std::vector<KafkaPlace>& places) {
  List list(rd_kafka_topic_partition_list_new(static_cast<int>(places.size())));
  for (const auto& [topic, partition] : places)
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition);
  return list;
}

std::vector<KafkaPlace> PlacesOf(const rd_kafka_topic_partition_list_t& list) {
  std::vector<KafkaPlace> places;
  for (int i = 0; i < list.cnt; ++i)
    places.emplace_back(list.elems[i].topic, list.elems[i].partition);
  return places;
}

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

std::vector<KafkaProperty> ConsumerProperties(const KafkaConsumer::Options& options) {
  return {
      {"group.id", options.group},
      {"enable.auto.commit", "true"},
      {"auto.commit.interval.ms", "500"},
      {"enable.auto.offset.store", "false"},  // StoreOffset says what may be committed
      {"auto.offset.reset", "earliest"},
      {"isolation.level", "read_committed"},
      {"session.timeout.ms", KafkaMillis(options.session_timeout)},
      {"heartbeat.interval.ms", KafkaMillis(options.session_timeout / 4)},
      {"socket.timeout.ms", KafkaMillis(kAnswerMax)},
      {"queued.max.messages.kbytes", absl::StrCat(options.prefetch_bytes_max >> 10)},
      {"fetch.max.bytes", "8388608"},
      {"max.partition.fetch.bytes", "1048576"},
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<KafkaConsumer>> KafkaConsumer::Open(const Options& options,
                                                                   Listener& listener) {
  std::unique_ptr<KafkaConsumer> consumer(new KafkaConsumer(options, listener));
  ASSIGN_OR_RETURN(
      std::vector<KafkaProperty> properties,
      KafkaClientProperties(ConsumerProperties(options), {}, options.access, "the ingestion"));
  ASSIGN_OR_RETURN(const auto client,
                   NewKafkaClient(RD_KAFKA_CONSUMER, std::move(properties), consumer->password_,
                                  [&](rd_kafka_conf_t* conf) {
                                    rd_kafka_conf_set_opaque(conf, consumer.get());
                                    rd_kafka_conf_set_rebalance_cb(conf,
                                                                   &KafkaConsumer::OnRebalance);
                                    rd_kafka_conf_set_error_cb(conf, &KafkaConsumer::OnError);
                                  }));
  consumer->handle_ = client;
  rd_kafka_poll_set_consumer(client);
  consumer->queue_ = rd_kafka_queue_get_consumer(client);
  return consumer;
}

KafkaConsumer::~KafkaConsumer() {
  if (queue_ != nullptr) rd_kafka_queue_destroy(queue_);
  if (handle_ == nullptr) return;
  // Without Close the group takes the partitions back when the session times out.
  closed_ ? rd_kafka_destroy(handle_)
          : rd_kafka_destroy_flags(handle_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void KafkaConsumer::Subscribe() {
  std::vector<KafkaPlace> topics;
  for (const std::string& topic : topics_) topics.emplace_back(topic, RD_KAFKA_PARTITION_UA);
  // Fails only for malformed names.
  const rd_kafka_resp_err_t error = rd_kafka_subscribe(handle_, ListOf(topics).get());
  CHECK(error == RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_err2str(error);
}

KafkaMessagePtr KafkaConsumer::Poll(absl::Duration timeout) {
  KafkaMessagePtr message(rd_kafka_consumer_poll(handle_, Millis(timeout)));
  if (message == nullptr || message->err == RD_KAFKA_RESP_ERR_NO_ERROR) return message;
  // The text of such an error is the message's value.
  listener_.OnTrouble(KafkaErrorText(rd_kafka_message_errstr(message.get()), password_));
  return nullptr;
}

void KafkaConsumer::Wake() { rd_kafka_queue_yield(queue_); }

// librdkafka 2.0 may lose a partition's place if what is not paused is resumed (its issue 4686), or
// if what is paused is paused again after a seek.
void KafkaConsumer::Pause(const std::vector<KafkaPlace>& places) {
  std::vector<KafkaPlace> changed;
  for (const KafkaPlace& place : places) {
    if (paused_.insert(place).second) changed.push_back(place);
  }
  if (!changed.empty()) rd_kafka_pause_partitions(handle_, ListOf(changed).get());
}

void KafkaConsumer::Resume(const std::vector<KafkaPlace>& places) {
  std::vector<KafkaPlace> changed;
  for (const KafkaPlace& place : places) {
    if (paused_.erase(place) > 0) changed.push_back(place);
  }
  if (!changed.empty()) rd_kafka_resume_partitions(handle_, ListOf(changed).get());
}

void KafkaConsumer::Seek(const KafkaPlace& place, int64_t offset) {
  const List list = ListOf({place});
  list->elems[0].offset = offset;
  rd_kafka_error_t* error = rd_kafka_seek_partitions(handle_, list.get(), 0);
  if (error != nullptr) rd_kafka_error_destroy(error);
}

void KafkaConsumer::StoreOffset(const KafkaPlace& place, int64_t next) {
  const List list = ListOf({place});
  list->elems[0].offset = next;
  // Fails for a partition that is not ours any more: its new owner reads the messages again.
  rd_kafka_offsets_store(handle_, list.get());
}

std::optional<int64_t> KafkaConsumer::EndOf(const KafkaPlace& place) {
  int64_t low = 0;
  int64_t high = RD_KAFKA_OFFSET_INVALID;
  const auto error =
      rd_kafka_get_watermark_offsets(handle_, place.first.c_str(), place.second, &low, &high);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR || high < 0) return std::nullopt;
  return high;
}

bool KafkaConsumer::Close(absl::FunctionRef<bool()> expired) {
  rd_kafka_queue_t* events = rd_kafka_queue_new(handle_);
  if (rd_kafka_error_t* error = rd_kafka_consumer_close_queue(handle_, events); error != nullptr)
    rd_kafka_error_destroy(error);
  while (rd_kafka_consumer_closed(handle_) == 0 && !expired()) {
    rd_kafka_event_t* event = rd_kafka_queue_poll(events, Millis(kCloseStep));
    if (event == nullptr) continue;
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE) {
      OnRebalance(handle_, rd_kafka_event_error(event), rd_kafka_event_topic_partition_list(event),
                  this);
    }
    // Messages that still come are dropped: the partition's next owner reads them.
    rd_kafka_event_destroy(event);
  }
  closed_ = rd_kafka_consumer_closed(handle_) != 0;
  rd_kafka_queue_destroy(events);
  return closed_;
}

void KafkaConsumer::OnRebalance(rd_kafka_t* handle, rd_kafka_resp_err_t event,
                                rd_kafka_topic_partition_list_t* partitions, void* self) {
  KafkaConsumer& consumer = *static_cast<KafkaConsumer*>(self);
  if (event == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
    rd_kafka_assign(handle, partitions);
    consumer.listener_.OnAssigned(PlacesOf(*partitions));
    return;
  }
  const std::vector<KafkaPlace> places = PlacesOf(*partitions);
  consumer.listener_.OnRevoked(places, rd_kafka_assignment_lost(handle) != 0);
  // They would still be paused if they were assigned to this process again.
  consumer.Resume(places);
  rd_kafka_assign(handle, nullptr);
}

void KafkaConsumer::OnError(rd_kafka_t*, int, const char* reason, void* self) {
  const KafkaConsumer& consumer = *static_cast<KafkaConsumer*>(self);
  consumer.listener_.OnTrouble(KafkaErrorText(reason, consumer.password_));
}

}  // namespace escapement::master
