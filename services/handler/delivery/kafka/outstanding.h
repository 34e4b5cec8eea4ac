// KafkaAttempt: an attempt from Send until it has its result and librdkafka has reported its
// record. KafkaDeadlines: finds the attempts whose timeout has passed.
//
// Threads: one at a time, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_OUTSTANDING_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_OUTSTANDING_H_

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class KafkaProducer;

struct KafkaAttempt {
  KafkaProducer* producer = nullptr;
  DeliveryAttempt attempt = {};  // its context owns the payload, which librdkafka reads
  std::shared_ptr<DeliverySink> sink = nullptr;
  MonotonicMicros deadline = 0;
  bool answered = false;
  bool produced = false;   // librdkafka has the record: it will report
  bool first = false;      // no other record was outstanding when this one was produced
  uint64_t number = 0;     // the record's, counted by its producer
  uint64_t delivered = 0;  // records that the producer had delivered when it took this one

  // Links of KafkaDeadlines.
  KafkaAttempt* next = nullptr;
  KafkaAttempt** link = nullptr;  // the pointer to this attempt; null: it is in no list
};

class KafkaDeadlines {
 public:
  // The attempts are looked for in steps of this.
  static constexpr MonotonicMicros kStep = 2'000;

  void Add(KafkaAttempt* attempt);
  // The attempt must be in the list.
  void Remove(KafkaAttempt* attempt);
  // Removes the attempts whose deadline has passed, and calls `expired` with each.
  void Expire(MonotonicMicros now, absl::FunctionRef<void(KafkaAttempt*)> expired);
  // When Expire may find something; INT64_MAX if there is no attempt.
  MonotonicMicros next() const;

 private:
  // Key: the step that a deadline is in. Addresses of values stay valid. A list may be empty.
  std::map<MonotonicMicros, KafkaAttempt*> steps_;
  // The value that Add used last, and its key; null: none.
  KafkaAttempt** last_ = nullptr;
  MonotonicMicros last_step_ = 0;
};

// ResultOfReport: the result of an attempt, from librdkafka's report about its record.
//
// Pure.

struct KafkaReport {
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  bool possibly_persisted = false;  // the record may be in the topic's log
  // No other record can have been in the same batch, so an error of the batch is the record's own.
  bool alone = false;
  // The producer has delivered other records since it took this one.
  bool delivering = false;
  // The reason why the producer does not reach its brokers: a refused address, an authentication
  // that failed, or the last error of a connection. Empty if none is known.
  std::string trouble = {};
};

// Follows the table in kafka_transport.h.
DeliveryResult ResultOfReport(const KafkaReport& report);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_OUTSTANDING_H_
