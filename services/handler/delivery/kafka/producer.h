// KafkaProducer: one producer of librdkafka, for one cluster configuration. KafkaProperties: that
// configuration, from a Kafka target.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_H_

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kafka/client.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/facts.h"
#include "services/handler/delivery/kafka/outstanding.h"

namespace escapement::storage::v1 {
class KafkaTargetRecord;
}  // namespace escapement::storage::v1

namespace escapement::handler {

// KafkaProperties: how librdkafka is configured for the cluster of a Kafka target.
//
// Only the target's brokers, certificates and SASL credentials reach librdkafka, each by a property
// of its own. All other properties are fixed here. So a target can neither load plug-ins, read
// files, nor turn on debug output.
//
// Pure functions.

// A batch has at most this many bytes, unless one record is larger. A topic may take smaller
// messages than its cluster, and a batch that is too large fails all of its records.
inline constexpr size_t kKafkaBatchBytes = 128 << 10;
// The largest record, with its key and headers. Brokers take 1,048,588 bytes by default.
inline constexpr size_t kKafkaMessageBytesMax = 1'000'000;
// Records that one producer keeps until the brokers have them, and the bytes of their keys, values
// and headers. Each record takes some 1.5 KiB more. Further records are not taken.
inline constexpr size_t kKafkaQueuedRecordsMax = 20'000;
inline constexpr size_t kKafkaQueuedKibMax = 32 << 10;

struct KafkaTuning {
  absl::Duration linger = absl::Milliseconds(1);          // 0 to 5 ms
  absl::Duration message_timeout = absl::Seconds(8);      // a value of KafkaMessageTimeout
  absl::Duration unknown_topic_after = absl::Seconds(2);  // a topic may be new
  // How soon a topic that failed is looked up again: until then its records fail at once.
  absl::Duration metadata_refresh = absl::Seconds(30);
  absl::Duration connect_timeout = absl::Seconds(10);       // at least 1 s
  absl::Duration reconnect_backoff_max = absl::Seconds(2);  // the first backoff is 100 ms
};

// How long librdkafka tries to deliver a record, for an attempt with this timeout: one of a few
// values, because all records of a producer have the same. It is shorter than the attempt's timeout
// if that is at least 2.5 s. So librdkafka has given up, and says whether the record was sent,
// before the attempt ends. At least 1 s, because librdkafka looks for old records once a second.
absl::Duration KafkaMessageTimeout(absl::Duration attempt_timeout);

// INVALID_ARGUMENT: brokers or mechanism that validation does not let through.
absl::StatusOr<std::vector<KafkaProperty>> KafkaProperties(
    const storage::v1::KafkaTargetRecord& target, const KafkaTuning& tuning);

// Equal for targets that can share a producer: all of the target's properties and the message
// timeout. It contains secrets, so it must not be shown.
std::string KafkaClusterKey(const storage::v1::KafkaTargetRecord& target,
                            absl::Duration message_timeout);

// KafkaProducer: one producer of librdkafka, for one cluster configuration.
//
// It owns the attempts that it was given (NewAttempt) until they are freed. A record's payload is
// not copied: librdkafka reads it from the attempt's context.
//
// An address that the AddressRule does not allow is not connected to. The rule sees the address
// itself, after names were resolved, of bootstrap brokers and of those that a cluster advertises.
//
// Threads: Open may run on any thread, before all other calls. Then all calls come from one thread,
// the transport's, and so do the listener's. The Wake function is called on librdkafka's threads.
// The destructor waits for librdkafka's threads, which may take as long as a name is being
// resolved.
class KafkaProducer {
 public:
  // Takes the reports about records, from within Serve.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnReport(KafkaAttempt* attempt, const KafkaReport& report) = 0;
  };
  struct Options {
    std::vector<KafkaProperty> properties;
    std::string password;  // is cut out of messages
    std::shared_ptr<const AddressRule> addresses;
    Listener* listener = nullptr;
    uint64_t id = 0;
    // There is something to Serve in the producer with this id. Also called while it is destroyed.
    std::function<void(uint64_t id)> wake;
  };

  explicit KafkaProducer(Options options);
  ~KafkaProducer();
  KafkaProducer(const KafkaProducer&) = delete;
  KafkaProducer& operator=(const KafkaProducer&) = delete;

  // Makes librdkafka's producer; it connects later. Reading the certificates of the system takes
  // some 30 ms. INVALID_ARGUMENT: librdkafka refuses a property, e.g. a certificate.
  // RESOURCE_EXHAUSTED: no memory or thread.
  absl::Status Open();

  KafkaAttempt* NewAttempt();
  // It must be answered and not produced.
  void Free(KafkaAttempt* attempt);
  // Attempts that were not freed. Librdkafka has no use for them once this object is destroyed.
  size_t attempts() const { return attempts_.size() - free_.size(); }
  void ForEachAttempt(const std::function<void(KafkaAttempt*)>& visit);

  // Gives the record to librdkafka. If it returns an error, there will be no report.
  rd_kafka_resp_err_t Produce(KafkaAttempt* attempt, const std::string& topic);

  // Hands over the reports that have come.
  void Serve();
  // Gives up the records that librdkafka has not sent; with `in_flight`, also the others. Their
  // reports come later.
  void Purge(bool in_flight);

  uint64_t id() const { return options_.id; }
  // Records that it has delivered.
  uint64_t delivered() const { return delivered_; }
  // An address was refused, or an authentication failed, and no record was delivered since.
  bool IsBarred() const { return denied_ || refused_; }
  // The reason why it does not reach its brokers; empty if none is known.
  std::string Trouble();
  // Not empty: librdkafka has given up for this reason, and the producer must be replaced.
  const std::string& fatal() const { return fatal_; }
  size_t topics() const { return topics_.size(); }

 private:
  static void OnDelivered(rd_kafka_t* handle, const rd_kafka_message_t* message, void* self);
  static void OnError(rd_kafka_t* handle, int error, const char* reason, void* self);
  static void OnQueue(rd_kafka_t* handle, void* self);
  static int Connect(int socket, const sockaddr* address, int length, const char* broker,
                     void* self);
  void SetCallbacks(rd_kafka_conf_t* conf);
  rd_kafka_topic_t* TopicOf(const std::string& name);
  rd_kafka_headers_t* HeadersOf(const DeliveryAttempt& attempt);
  void Refuse(const char* broker);

  Options options_;
  rd_kafka_t* handle_ = nullptr;

  std::deque<KafkaAttempt> attempts_;
  std::vector<KafkaAttempt*> free_;
  absl::flat_hash_map<std::string, rd_kafka_topic_t*> topics_;
  const std::string* last_topic_name_ = nullptr;
  rd_kafka_topic_t* last_topic_ = nullptr;
  // The facts of the context of the last record, with the names of its headers.
  std::shared_ptr<const DeliveryContext> last_context_;
  std::vector<Fact> context_facts_;
  uint64_t produced_ = 0;
  uint64_t delivered_ = 0;
  size_t in_librdkafka_ = 0;
  std::string last_error_;
  std::string fatal_;
  bool denied_ = false;  // an authentication failed, and nothing was delivered since

  std::atomic<bool> refused_{false};  // an address was refused, and nothing was delivered since
  absl::Mutex mutex_;
  std::string refused_broker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_H_
