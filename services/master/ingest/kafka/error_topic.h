// ErrorTopic: gives messages that can never make an event to the error topic, each with the reason.
//
// A record has the key, the value and the headers of the message, and further headers:
//
//   escapement-error            why, in words
//   escapement-error-code       the code of google.rpc.Code, for example INVALID_ARGUMENT
//   escapement-error-topic, -partition, -offset, -timestamp
//                               where the message is; the time in milliseconds since 1970
//   escapement-error-group      the consumer group
//   escapement-error-truncated  "true" if the record was too large: it has no value, or also no
//                               key and no headers of the message
//
// A record that the brokers do not acknowledge is sent again until they do, so an error topic may
// have a message twice.
//
// Threads: all calls come from one thread, and so do the listener's, from within Send and Serve.
// `wake` is called on librdkafka's threads.

#ifndef SERVICES_MASTER_INGEST_KAFKA_ERROR_TOPIC_H_
#define SERVICES_MASTER_INGEST_KAFKA_ERROR_TOPIC_H_

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kafka/client.h"
#include "common/runtime/runtime.h"
#include "services/master/ingest/kafka/kafka_batch.h"

namespace escapement::master {

class ErrorTopic {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // The brokers have acknowledged the record, or its partition is not ours any more.
    virtual void OnErrorRecorded(IngestItem item) = 0;
    // A record was not acknowledged for the first time. It is sent again.
    virtual void OnErrorDelayed(IngestItem& item, const std::string& why) = 0;
  };
  struct Options {
    KafkaAccess access;
    std::string topic;
    std::string group;
    absl::Duration message_timeout = absl::Seconds(30);
    absl::Duration backoff_max = absl::Seconds(10);
    std::function<void()> wake;  // there is something to Serve
  };

  // INVALID_ARGUMENT, RESOURCE_EXHAUSTED: as NewKafkaClient. The others outlive it.
  static absl::StatusOr<std::unique_ptr<ErrorTopic>> Open(Options options, Runtime& runtime,
                                                          Listener& listener);
  ~ErrorTopic();
  ErrorTopic(const ErrorTopic&) = delete;
  ErrorTopic& operator=(const ErrorTopic&) = delete;

  void Send(IngestItem item, const absl::Status& why);
  // Takes the reports that have come, and sends again what is due.
  void Serve();
  // When Serve has something to send again, by the clock's Elapsed; infinite: never.
  absl::Duration NextDue() const;

 private:
  struct Record {
    std::list<Record>::iterator self;
    IngestItem item;
    absl::Status why;
    uint32_t tries = 0;  // that have failed
    bool without_value = false;
    bool without_head = false;  // no key, and no headers of the message
    bool produced = false;      // librdkafka has it
    absl::Duration due = absl::ZeroDuration();
  };

  ErrorTopic(Options options, Runtime& runtime, Listener& listener)
      : options_(std::move(options)), runtime_(runtime), listener_(listener) {}

  static void OnDelivered(rd_kafka_t* handle, const rd_kafka_message_t* message, void* self);
  static void OnQueue(rd_kafka_t* handle, void* self);
  void Produce(Record& record);
  rd_kafka_headers_t* HeadersOf(const Record& record) const;
  void OnReport(Record& record, rd_kafka_resp_err_t error);
  void Delay(Record& record, rd_kafka_resp_err_t error);

  Options options_;
  Runtime& runtime_;
  Listener& listener_;
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  bool closing_ = false;
  std::list<Record> records_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_ERROR_TOPIC_H_
