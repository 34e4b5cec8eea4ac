#include "services/master/ingest/kafka/error_topic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/status_macros.h"
#include "common/kafka/client.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

constexpr size_t kHeadersAdded = 8;
constexpr absl::Duration kResendBackoffMin = absl::Milliseconds(100);
// How soon a new error topic is found.
constexpr absl::Duration kMetadataRefresh = absl::Seconds(5);

std::vector<KafkaProperty> ProducerProperties(const ErrorTopic::Options& options) {
  return {
      {"acks", "all"},
      {"linger.ms", "5"},
      // Above what a broker takes by default, so that the broker decides.
      {"message.max.bytes", "4194304"},
      {"message.timeout.ms", KafkaMillis(options.message_timeout)},
      {"topic.metadata.propagation.max.ms", "2000"},  // a topic may be new
  };
}

void AddHeader(const char* name, const std::string& value, rd_kafka_headers_t* headers) {
  rd_kafka_header_add(headers, name, -1, value.data(), static_cast<ssize_t>(value.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ErrorTopic>> ErrorTopic::Open(Options options, Runtime& runtime,
                                                             Listener& listener) {
  std::unique_ptr<ErrorTopic> errors(new ErrorTopic(std::move(options), runtime, listener));
  const Options& own = errors->options_;
  ASSIGN_OR_RETURN(
      std::vector<KafkaProperty> properties,
      KafkaClientProperties(ProducerProperties(own), {.metadata_refresh = kMetadataRefresh},
                            own.access, "the ingestion"));
  ASSIGN_OR_RETURN(const auto client,
                   NewKafkaClient(RD_KAFKA_PRODUCER, std::move(properties),
                                  own.access.sasl_password, [&](rd_kafka_conf_t* conf) {
                                    rd_kafka_conf_set_opaque(conf, errors.get());
                                    rd_kafka_conf_set_dr_msg_cb(conf, &ErrorTopic::OnDelivered);
                                  }));
  errors->handle_ = client;
  errors->topic_ = rd_kafka_topic_new(client, own.topic.c_str(), nullptr);
  if (errors->topic_ == nullptr)
    return absl::InvalidArgumentError(rd_kafka_err2str(rd_kafka_last_error()));
  rd_kafka_queue_t* queue = rd_kafka_queue_get_main(client);
  rd_kafka_queue_cb_event_enable(queue, &ErrorTopic::OnQueue, errors.get());
  rd_kafka_queue_destroy(queue);
  return errors;
}

ErrorTopic::~ErrorTopic() {
  closing_ = true;
  if (topic_ != nullptr) rd_kafka_topic_destroy(topic_);
  if (handle_ == nullptr) return;
  // Otherwise librdkafka would wait for records in flight.
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  rd_kafka_destroy(handle_);
}

void ErrorTopic::Send(IngestItem item, const absl::Status& why) {
  Record& record = records_.emplace_front();
  record.self = records_.begin();
  record.item = std::move(item);
  record.why = why;
  Produce(record);
}

void ErrorTopic::Serve() {
  rd_kafka_poll(handle_, 0);
  const absl::Duration now = runtime_.clock().Elapsed();
  for (auto next = records_.begin(); next != records_.end();) {
    Record& record = *next++;
    if (record.produced || record.due > now) continue;
    if (!record.item.partition->gone) {
      Produce(record);
      continue;
    }
    IngestItem item = std::move(record.item);
    records_.erase(record.self);
    listener_.OnErrorRecorded(std::move(item));
  }
}

absl::Duration ErrorTopic::NextDue() const {
  absl::Duration due = absl::InfiniteDuration();
  for (const Record& record : records_) {
    if (!record.produced) due = std::min(due, record.due);
  }
  return due;
}

rd_kafka_headers_t* ErrorTopic::HeadersOf(const Record& record) const {
  const rd_kafka_message_t& message = *record.item.message;
  rd_kafka_headers_t* theirs = nullptr;
  rd_kafka_headers_t* headers =
      !record.without_head &&
              rd_kafka_message_headers(&message, &theirs) == RD_KAFKA_RESP_ERR_NO_ERROR
          ? rd_kafka_headers_copy(theirs)
          : rd_kafka_headers_new(kHeadersAdded);
  const KafkaMessageView view = ViewOf(message);
  AddHeader("escapement-error", ErrorText(record.why.message()), headers);
  AddHeader("escapement-error-code", absl::StatusCodeToString(record.why.code()), headers);
  AddHeader("escapement-error-topic", std::string(view.topic), headers);
  AddHeader("escapement-error-partition", absl::StrCat(view.partition), headers);
  AddHeader("escapement-error-offset", absl::StrCat(view.offset), headers);
  AddHeader("escapement-error-timestamp", absl::StrCat(view.timestamp_millis), headers);
  AddHeader("escapement-error-group", options_.group, headers);
  if (record.without_value) AddHeader("escapement-error-truncated", "true", headers);
  return headers;
}

void ErrorTopic::Produce(Record& record) {
  const rd_kafka_message_t& message = *record.item.message;
  rd_kafka_vu_t parts[5];
  parts[0].vtype = RD_KAFKA_VTYPE_RKT;
  parts[0].u.rkt = topic_;
  parts[1].vtype = RD_KAFKA_VTYPE_VALUE;  // not copied: the record keeps the message
  parts[1].u.mem.ptr = record.without_value ? nullptr : message.payload;
  parts[1].u.mem.size = record.without_value ? 0 : message.len;
  parts[2].vtype = RD_KAFKA_VTYPE_KEY;
  parts[2].u.mem.ptr = record.without_head ? nullptr : message.key;
  parts[2].u.mem.size = record.without_head ? 0 : message.key_len;
  parts[3].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[3].u.headers = HeadersOf(record);
  parts[4].vtype = RD_KAFKA_VTYPE_OPAQUE;
  parts[4].u.ptr = &record;
  rd_kafka_headers_t* headers = parts[3].u.headers;
  record.produced = true;
  if (rd_kafka_error_t* error = rd_kafka_produceva(handle_, parts, 5); error != nullptr) {
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);  // still ours
    record.produced = false;
    Delay(record, code);
  }
}

void ErrorTopic::OnDelivered(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
  ErrorTopic& errors = *static_cast<ErrorTopic*>(self);
  if (!errors.closing_) errors.OnReport(*static_cast<Record*>(message->_private), message->err);
}

void ErrorTopic::OnQueue(rd_kafka_t*, void* self) {
  static_cast<ErrorTopic*>(self)->options_.wake();
}

void ErrorTopic::OnReport(Record& record, rd_kafka_resp_err_t error) {
  record.produced = false;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Delay(record, error);
  IngestItem item = std::move(record.item);
  records_.erase(record.self);
  listener_.OnErrorRecorded(std::move(item));
}

// The message stays in its topic, and the record says where. So what the error topic does not take
// may be left out.
void ErrorTopic::Delay(Record& record, rd_kafka_resp_err_t error) {
  if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
    record.without_head = record.without_value;
    record.without_value = true;
  }
  const BackoffPolicy backoff = {.min = kResendBackoffMin, .max = options_.backoff_max};
  record.due = runtime_.clock().Elapsed() +
               FullJitterBackoff(backoff, ++record.tries, runtime_.random().Next());
  if (record.tries == 1) listener_.OnErrorDelayed(record.item, rd_kafka_err2str(error));
}

}  // namespace escapement::master
