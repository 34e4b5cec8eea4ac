#include <curl/curl.h>
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "services/handler/delivery/kafka/producer.h"
#include "services/master/ingest/kafka/consumer.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/kafka/kafka_attempts.h"

namespace escapement::bench {

namespace {

constexpr uint64_t kUnansweredMax = 4096;

class RawStream final : public grpc::ClientBidiReactor<v1::Delivery, v1::DeliveryResult> {
 public:
  RawStream(v1::TriggerReceiver::Stub* stub, uint64_t deliveries, size_t payload_bytes)
      : deliveries_(deliveries) {
    delivery_.set_source("/tenants/raw/schedules/grpc");
    delivery_.set_occurrence("2026-03-01T00:00:00Z");
    delivery_.set_count(static_cast<int64_t>(deliveries));
    delivery_.set_attempt(1);
    delivery_.set_payload(std::string(payload_bytes, 'r'));
    delivery_.set_content_type("application/json");
    stub->async()->Deliver(&context_, this);
    AddHold();
    StartRead(&result_);
    {
      absl::MutexLock lock(&mutex_);
      WriteNext();
    }
    StartCall();
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (ok) WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();
    {
      absl::MutexLock lock(&mutex_);
      ++answered_;
      WriteNext();
      if (answered_ == deliveries_) context_.TryCancel();
    }
    StartRead(&result_);
  }

  void OnDone(const grpc::Status&) override { done_.Notify(); }

  void Wait() { done_.WaitForNotification(); }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || written_ == deliveries_ || written_ - answered_ >= kUnansweredMax) return;
    writing_ = true;
    ++written_;
    delivery_.set_delivery_number(written_);
    delivery_.set_event_id(absl::StrCat("0123456789abcdef0123456789", written_));
    delivery_.set_index(static_cast<int64_t>(written_));
    grpc::WriteOptions options;
    if (written_ < deliveries_ && written_ - answered_ < kUnansweredMax) options.set_buffer_hint();
    StartWrite(&delivery_, options);
  }

  const uint64_t deliveries_;
  grpc::ClientContext context_;
  v1::Delivery delivery_;
  v1::DeliveryResult result_;
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Notification done_;
};

}  // namespace

double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes) {
  const auto stub = v1::TriggerReceiver::NewStub(NewChannel(target));
  const absl::Time begin = absl::Now();
  RawStream stream(stub.get(), deliveries, payload_bytes);
  stream.Wait();
  return static_cast<double>(deliveries) / absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::StatusOr<RawHops> RawHops::Start(const std::string& bin, const std::string& folder,
                                       const std::string& answer) {
  const std::string file = absl::StrCat(folder, "/raw_answer");
  std::ofstream(file, std::ios::binary) << answer;
  std::unique_ptr<integration::ChildProcess> started;
  const auto start = [&](const std::string& argument) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(started, integration::ChildProcess::Start(
                                  {.program = absl::StrCat(bin, "/tests/bench/raw/unary_hop_main"),
                                   .arguments = {argument},
                                   .input = true}));
    ASSIGN_OR_RETURN(const auto line, started->AwaitLine("grpc ", absl::Seconds(20)));
    return absl::StrCat("127.0.0.1:", absl::StripPrefix(line, "grpc "));
  };
  RawHops hops;
  ASSIGN_OR_RETURN(const auto back, start(absl::StrCat("--answer=", file)));
  hops.back_process_ = std::move(started);
  ASSIGN_OR_RETURN(hops.front_, start(absl::StrCat("--next=", back)));
  hops.front_process_ = std::move(started);
  return hops;
}

double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight,
               const std::string& ca) {
  const std::string payload(payload_bytes, 'r');
  // As in a delivery, the header lines are one entry of the list.
  std::string lines =
      "Content-Type: application/json\r\nUser-Agent: raw\r\nce-specversion: 1.0\r\nce-type: "
      "escapement.trigger.v1\r\n"
      "ce-source: /tenants/raw/schedules/http\r\nce-time: 2026-03-01T00:00:00Z\r\n"
      "Escapement-Count: 1\r\nce-id: 0123456789abcdef0123456789abcdef\r\n"
      "Idempotency-Key: 0123456789abcdef0123456789abcdef\r\nEscapement-Attempt: "
      "1\r\nEscapement-Index: 0";
  curl_slist headers = {lines.data(), nullptr};
  const std::string uri = origin + "/raw";
  std::vector<CurlHandle> handles;
  for (int i = 0; i < in_flight; ++i) {
    CurlHandle easy = NewCurlHandle();
    curl_easy_setopt(easy.get(), CURLOPT_URL, uri.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, payload.data());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(payload.size()));
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, &headers);
    if (!ca.empty()) {
      curl_blob blob = {const_cast<char*>(ca.data()), ca.size(), CURL_BLOB_COPY};
      curl_easy_setopt(easy.get(), CURLOPT_CAINFO_BLOB, &blob);
      curl_easy_setopt(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    }
    handles.push_back(std::move(easy));
  }
  return CurlRate(handles, requests);
}

namespace {

size_t Drop(char*, size_t size, size_t count, void*) { return size * count; }

bool Answered200(const CURLMsg& message) {
  long status = 0;
  curl_easy_getinfo(message.easy_handle, CURLINFO_RESPONSE_CODE, &status);
  return message.data.result == CURLE_OK && status == 200;
}

}  // namespace

CurlHandle NewCurlHandle() {
  CurlHandle easy(curl_easy_init());
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &Drop);
  return easy;
}

double CurlRate(const std::vector<CurlHandle>& handles, uint64_t transfers) {
  CURLM* multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(handles.size()));
  const absl::Time begin = absl::Now();
  uint64_t started = 0;
  uint64_t ended = 0;
  bool good = true;
  for (const CurlHandle& easy : handles) {
    if (started == transfers) break;
    curl_multi_add_handle(multi, easy.get());
    ++started;
  }
  while (ended < transfers) {
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    bool any = false;
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      CURL* easy = message->easy_handle;
      good = good && Answered200(*message);
      curl_multi_remove_handle(multi, easy);
      ++ended;
      any = true;
      if (started == transfers) continue;
      curl_multi_add_handle(multi, easy);
      ++started;
    }
    if (!any && ended < transfers) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  const double rate = static_cast<double>(transfers) / absl::ToDoubleSeconds(absl::Now() - begin);
  for (const CurlHandle& easy : handles) curl_multi_remove_handle(multi, easy.get());
  curl_multi_cleanup(multi);
  return good ? rate : 0;
}

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

namespace {

struct Unread {
  const std::string* mail;
  size_t used = 0;
};

size_t Read(char* buffer, size_t size, size_t count, void* data) {
  auto* unread = static_cast<Unread*>(data);
  const size_t bytes = std::min(size * count, unread->mail->size() - unread->used);
  memcpy(buffer, unread->mail->data() + unread->used, bytes);
  unread->used += bytes;
  return bytes;
}

std::string Mail(size_t text_bytes) {
  std::string mail =
      "From: jobs@example.com\r\nTo: ann@example.org\r\nSubject: raw\r\n"
      "Message-ID: <raw@example.com>\r\nce-id: 0123456789abcdef0123456789abcdef\r\n"
      "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n";
  for (size_t bytes = 0; bytes < text_bytes; bytes += 70)
    absl::StrAppend(&mail, std::string(std::min<size_t>(70, text_bytes - bytes), 'r'), "\r\n");
  return mail;
}

}  // namespace

double RawMail(const std::string& smtp_uri, uint64_t mails, size_t text_bytes, int connections) {
  const std::string mail = Mail(text_bytes);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> good = true;
  const auto send = [&] {
    const CurlHandle easy = NewCurlHandle();
    curl_slist* to = curl_slist_append(nullptr, "<ann@example.org>");
    Unread unread = {.mail = &mail};
    curl_easy_setopt(easy.get(), CURLOPT_URL, smtp_uri.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_MAIL_FROM, "<jobs@example.com>");
    curl_easy_setopt(easy.get(), CURLOPT_MAIL_RCPT, to);
    curl_easy_setopt(easy.get(), CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_READFUNCTION, &Read);
    curl_easy_setopt(easy.get(), CURLOPT_READDATA, &unread);
    while (next.fetch_add(1) < mails) {
      unread.used = 0;
      if (curl_easy_perform(easy.get()) != CURLE_OK) good = false;
    }
    curl_slist_free_all(to);
  };
  const absl::Time begin = absl::Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < connections; ++i) threads.emplace_back(send);
  for (std::thread& thread : threads) thread.join();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  return good ? static_cast<double>(mails) / seconds : 0;
}

namespace {

constexpr uint64_t kEntries = 10;
constexpr std::pair<const char*, const char*> kAttributes[] = {
    {"ce_specversion", "1.0"},
    {"ce_source", "/tenants/default/schedules/bench-1"},
    {"ce_type", "escapement.trigger.v1"},
    {"ce_time", "2026-03-01T00:00:00Z"},
    {"ce_datacontenttype", "application/json"},
    {"ce_id", "0123456789abcdef0123456789abcdef"},
    {"ce_subject", "2026-03-01T00:00:00Z/1234"},
    {"escapement_attempt", "1"},
    {"escapement_index", "1234"},
    {"escapement_count", "10"},
};

std::string BodyOf(const std::string& queue_url, size_t payload_bytes) {
  std::string body = absl::StrCat("{\"QueueUrl\":\"", queue_url, "\",\"Entries\":[");
  for (uint64_t i = 0; i < kEntries; ++i) {
    absl::StrAppend(&body, i == 0 ? "" : ",", "{\"Id\":\"", i, "\",\"MessageBody\":\"",
                    std::string(payload_bytes, 'r'), "\",\"MessageAttributes\":{");
    const char* comma = "";
    for (const auto& [name, value] : kAttributes) {
      absl::StrAppend(&body, comma, "\"", name, "\":{\"DataType\":\"String\",\"StringValue\":\"",
                      value, "\"}");
      comma = ",";
    }
    body.append("}}");
  }
  return body.append("]}");
}

}  // namespace

double RawSqs(const std::string& origin, const std::string& queue_url,
              const std::string& credentials, uint64_t messages, size_t payload_bytes,
              int in_flight) {
  const std::string body = BodyOf(queue_url, payload_bytes);
  const std::string url = origin + "/";
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/x-amz-json-1.0");
  headers = curl_slist_append(headers, "X-Amz-Target: AmazonSQS.SendMessageBatch");
  std::vector<CurlHandle> handles;
  for (int i = 0; i < in_flight; ++i) {
    CurlHandle easy = NewCurlHandle();
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(easy.get(), CURLOPT_AWS_SIGV4, "aws:amz:eu-central-1:sqs");
    curl_easy_setopt(easy.get(), CURLOPT_USERPWD, credentials.c_str());
    handles.push_back(std::move(easy));
  }
  const double rate = CurlRate(handles, messages / kEntries) * static_cast<double>(kEntries);
  handles.clear();
  curl_slist_free_all(headers);
  return rate;
}

namespace {

// Takes results from many threads in batches, as the handler's sink does.
class CountingSink final : public handler::DeliverySink {
 public:
  void OnResult(uint64_t, handler::DeliveryResult result) override {
    absl::MutexLock lock(&mutex_);
    ++answered_;
    if (result.status != handler::DeliveryStatus::kAccepted) ++refused_;
  }

  // Waits for `count` answers in all. Returns how many there are.
  uint64_t Await(uint64_t count) {
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return answered_ >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return answered_;
  }
  uint64_t refused() {
    absl::MutexLock lock(&mutex_);
    return refused_;
  }

 private:
  absl::Mutex mutex_;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

double TransportRate(handler::DeliveryTransport& transport, const std::string& uri,
                     uint64_t deliveries, size_t payload_bytes, uint64_t outstanding) {
  return TransportRate(transport,
                       fixtures::MakeAttempts(
                           {.uri = uri, .payload = std::string(payload_bytes, 'r')}, 1, deliveries),
                       outstanding);
}

double TransportRate(handler::DeliveryTransport& transport,
                     std::vector<handler::DeliveryAttempt> attempts, uint64_t outstanding) {
  const auto sink = std::make_shared<CountingSink>();
  const uint64_t deliveries = attempts.size();
  const absl::Time begin = absl::Now();
  uint64_t sent = 0;
  uint64_t answered = 0;
  while (answered < deliveries) {
    const uint64_t more = std::min(outstanding - (sent - answered), deliveries - sent);
    std::vector<handler::DeliveryAttempt> batch(
        std::make_move_iterator(attempts.begin() + static_cast<ptrdiff_t>(sent)),
        std::make_move_iterator(attempts.begin() + static_cast<ptrdiff_t>(sent + more)));
    if (!batch.empty()) transport.Send(std::move(batch), sink);
    sent += more;
    answered = sink->Await(answered + (sent - answered + 3) / 4);  // until a quarter is free again
  }
  const double rate = static_cast<double>(deliveries) / absl::ToDoubleSeconds(absl::Now() - begin);
  return sink->refused() == 0 ? rate : 0;
}

}  // namespace escapement::bench
