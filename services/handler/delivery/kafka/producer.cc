#include "services/handler/delivery/kafka/producer.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/kafka/client.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/facts.h"

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

namespace {

constexpr size_t kHeadersMax = 16;

KafkaProducer* Self(void* self) { return static_cast<KafkaProducer*>(self); }

void AddHeader(absl::string_view name, absl::string_view value, rd_kafka_headers_t* headers) {
  rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                      static_cast<ssize_t>(value.size()));
}

// Errors after which trying again at once does not help: certificates or credentials are refused.
bool IsDenial(int error) {
  return error == RD_KAFKA_RESP_ERR__AUTHENTICATION || error == RD_KAFKA_RESP_ERR__SSL ||
         error == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

}  // namespace

KafkaProducer::KafkaProducer(Options options) : options_(std::move(options)) {}

KafkaProducer::~KafkaProducer() {
  for (const auto& [name, topic] : topics_) rd_kafka_topic_destroy(topic);
  if (handle_ == nullptr) return;
  options_.listener = nullptr;
  // Otherwise librdkafka would wait for records in flight.
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  rd_kafka_destroy(handle_);
}

absl::Status KafkaProducer::Open() {
  ASSIGN_OR_RETURN(
      rd_kafka_t * client,
      NewKafkaClient(RD_KAFKA_PRODUCER, std::move(options_.properties), options_.password,
                     [this](rd_kafka_conf_t* conf) { SetCallbacks(conf); }));
  handle_ = client;
  rd_kafka_queue_t* queue = rd_kafka_queue_get_main(handle_);
  rd_kafka_queue_cb_event_enable(queue, &KafkaProducer::OnQueue, this);
  rd_kafka_queue_destroy(queue);
  return absl::OkStatus();
}

void KafkaProducer::SetCallbacks(rd_kafka_conf_t* conf) {
  rd_kafka_conf_set_opaque(conf, this);
  rd_kafka_conf_set_dr_msg_cb(conf, &KafkaProducer::OnDelivered);
  rd_kafka_conf_set_error_cb(conf, &KafkaProducer::OnError);
  rd_kafka_conf_set_connect_cb(conf, &KafkaProducer::Connect);
}

KafkaAttempt* KafkaProducer::NewAttempt() {
  if (free_.empty()) {
    attempts_.emplace_back();
    free_.push_back(&attempts_.back());
  }
  KafkaAttempt* attempt = free_.back();
  free_.pop_back();
  // Context and sink are empty already, and the links, too. Produce sets the rest.
  attempt->producer = this;
  attempt->answered = false;
  return attempt;
}

void KafkaProducer::Free(KafkaAttempt* attempt) {
  CHECK(attempt->answered && !attempt->produced && attempt->link == nullptr);
  attempt->attempt.context.reset();
  attempt->sink.reset();
  free_.push_back(attempt);
  // Rows of the past must not stay in memory because the producer is idle.
  if (attempts() == 0) last_context_.reset();
}

void KafkaProducer::ForEachAttempt(const std::function<void(KafkaAttempt*)>& visit) {
  for (KafkaAttempt& attempt : attempts_) {
    if (attempt.sink != nullptr) visit(&attempt);
  }
}

rd_kafka_topic_t* KafkaProducer::TopicOf(const std::string& name) {
  if (last_topic_name_ != nullptr && *last_topic_name_ == name) return last_topic_;
  auto found = topics_.find(name);
  if (found == topics_.end()) {
    rd_kafka_topic_t* topic = rd_kafka_topic_new(handle_, name.c_str(), nullptr);
    if (topic == nullptr) return nullptr;
    last_topic_name_ = nullptr;  // the table may move its keys
    found = topics_.emplace(name, topic).first;
  }
  last_topic_name_ = &found->first;
  last_topic_ = found->second;
  return last_topic_;
}

rd_kafka_headers_t* KafkaProducer::HeadersOf(const DeliveryAttempt& attempt) {
  if (attempt.context != last_context_) {
    context_facts_ = ContextFactsOf(*attempt.context);
    // The binding of CloudEvents for Kafka has another name for this one (3.2.1).
    for (Fact& fact : context_facts_) {
      if (fact.name == "datacontenttype") fact.attribute = "content-type";
    }
    last_context_ = attempt.context;
  }
  // One list with room for all: a copy of a shorter one would have to grow.
  rd_kafka_headers_t* headers = rd_kafka_headers_new(kHeadersMax);
  for (const Fact& fact : context_facts_) AddHeader(fact.attribute, fact.value, headers);
  VisitAttemptFacts(
      attempt, [headers](absl::string_view, absl::string_view attribute, absl::string_view value) {
        AddHeader(attribute, value, headers);
      });
  return headers;
}

rd_kafka_resp_err_t KafkaProducer::Produce(KafkaAttempt* attempt, const std::string& topic_name) {
  rd_kafka_topic_t* topic = TopicOf(topic_name);
  if (topic == nullptr) return rd_kafka_last_error();
  const DeliveryAttempt& sent = attempt->attempt;
  const std::string& own_key = sent.context->definition->delivery().target().kafka().key();
  // Without the generation: all events with the id go to the same partition.
  const std::string key =
      own_key.empty() ? sent.event_id.substr(0, sent.event_id.find('#')) : own_key;
  const absl::string_view payload = sent.context->payload;

  rd_kafka_vu_t parts[5];
  parts[0].vtype = RD_KAFKA_VTYPE_RKT;
  parts[0].u.rkt = topic;
  parts[1].vtype = RD_KAFKA_VTYPE_VALUE;
  parts[1].u.mem.ptr = const_cast<char*>(payload.data());  // is only read
  parts[1].u.mem.size = payload.size();
  parts[2].vtype = RD_KAFKA_VTYPE_KEY;
  parts[2].u.mem.ptr = const_cast<char*>(key.data());
  parts[2].u.mem.size = key.size();
  parts[3].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[3].u.headers = HeadersOf(sent);
  parts[4].vtype = RD_KAFKA_VTYPE_OPAQUE;
  parts[4].u.ptr = attempt;
  rd_kafka_headers_t* headers = parts[3].u.headers;
  if (rd_kafka_error_t* error = rd_kafka_produceva(handle_, parts, 5); error != nullptr) {
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);  // still ours
    return code;
  }
  attempt->produced = true;
  attempt->first = in_librdkafka_ == 0;
  attempt->number = ++produced_;
  attempt->delivered = delivered_;
  ++in_librdkafka_;
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void KafkaProducer::Serve() {
  if (handle_ != nullptr) rd_kafka_poll(handle_, 0);
}

void KafkaProducer::Purge(bool in_flight) {
  if (handle_ == nullptr) return;
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING |
                              (in_flight ? RD_KAFKA_PURGE_F_INFLIGHT : 0));
}

std::string KafkaProducer::Trouble() {
  if (!fatal_.empty()) return fatal_;
  absl::MutexLock lock(&mutex_);
  if (!refused_broker_.empty())
    return absl::StrCat("the address of the broker ", refused_broker_, " is not allowed");
  return last_error_;
}

void KafkaProducer::OnDelivered(rd_kafka_t* handle, const rd_kafka_message_t* message, void* self) {
  KafkaProducer& producer = *Self(self);
  if (producer.options_.listener == nullptr) return;  // it is being destroyed
  auto* attempt = static_cast<KafkaAttempt*>(message->_private);
  CHECK_GT(producer.in_librdkafka_, 0u);
  --producer.in_librdkafka_;
  attempt->produced = false;
  KafkaReport report;
  report.error = message->err;
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    ++producer.delivered_;
    producer.denied_ = false;
    producer.last_error_.clear();
    if (producer.refused_.exchange(false)) {
      absl::MutexLock lock(&producer.mutex_);
      producer.refused_broker_.clear();
    }
  } else {
    report.possibly_persisted =
        rd_kafka_message_status(message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    report.alone =
        message->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && message->len > kKafkaBatchBytes;
    report.alone |= attempt->first && attempt->number == producer.produced_;
    report.delivering = producer.delivered_ > attempt->delivered;
    report.trouble = producer.Trouble();
  }
  producer.options_.listener->OnReport(attempt, report);
}

void KafkaProducer::OnError(rd_kafka_t* handle, int error, const char* reason, void* self) {
  KafkaProducer& producer = *Self(self);
  if (error == RD_KAFKA_RESP_ERR__FATAL) {
    char text[kKafkaErrorTextMax] = {};
    const rd_kafka_resp_err_t cause = rd_kafka_fatal_error(handle, text, sizeof(text));
    const std::string what = *text != '\0' ? text : rd_kafka_err2str(cause);
    producer.fatal_ = KafkaErrorText(what, producer.options_.password);
    return;
  }
  if (IsDenial(error)) producer.denied_ = true;
  // "All brokers are down" says less than the error of a connection before it.
  if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !producer.last_error_.empty()) return;
  producer.last_error_ = KafkaErrorText(reason, producer.options_.password);
}

void KafkaProducer::OnQueue(rd_kafka_t*, void* self) {
  Self(self)->options_.wake(Self(self)->id());
}

int KafkaProducer::Connect(int socket, const sockaddr* address, int length, const char* broker,
                           void* self) {
  KafkaProducer& producer = *Self(self);
  if (!producer.options_.addresses->Allows(*address)) {
    producer.Refuse(broker);
    return EACCES;
  }
  // The socket does not block: librdkafka waits for the connection.
  if (connect(socket, address, static_cast<socklen_t>(length)) == 0 || errno == EINPROGRESS)
    return 0;
  return errno;
}

void KafkaProducer::Refuse(const char* broker) {
  {
    absl::MutexLock lock(&mutex_);
    // As "host:port/1" or "plaintext://host:port/bootstrap".
    refused_broker_ = CleanText(broker, kKafkaErrorTextMax);
  }
  refused_ = true;
  options_.wake(options_.id);
}

}  // namespace escapement::handler
