// KafkaConsumer: a member of a consumer group, by librdkafka.
//
// Offsets are committed by librdkafka twice a second, when a partition is revoked, and at the end:
// always those that StoreOffset was given, never those that were merely read. A group that has no
// offset begins with the oldest message.
//
// Threads: all calls come from one thread, and so do the listener's, from within Poll and Close.
// Wake may be called from any.

#ifndef SERVICES_MASTER_INGEST_KAFKA_CONSUMER_H_
#define SERVICES_MASTER_INGEST_KAFKA_CONSUMER_H_

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kafka/client.h"

namespace escapement::master {

struct KafkaMessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
// All messages must be gone before their consumer is destroyed.
using KafkaMessagePtr = std::unique_ptr<rd_kafka_message_t, KafkaMessageDeleter>;

// A partition of a topic.
using KafkaPlace = std::pair<std::string, int32_t>;

class KafkaConsumer {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // The partitions are not paused.
    virtual void OnAssigned(const std::vector<KafkaPlace>& places) = 0;
    // After it returns, offsets of these partitions can be committed no more. `lost`: they cannot
    // be committed even now, since others may own the partitions already.
    virtual void OnRevoked(const std::vector<KafkaPlace>& places, bool lost) = 0;
    // A broker cannot be reached or refuses something; librdkafka goes on trying.
    virtual void OnTrouble(const std::string& text) = 0;
  };
  struct Options {
    KafkaAccess access;
    std::vector<std::string> topics;
    std::string group;
    // A member that is silent for so long loses its partitions.
    absl::Duration session_timeout = absl::Seconds(10);
    // Bytes that are fetched before they are asked for.
    size_t prefetch_bytes_max = 16 << 20;
  };

  // Connects in the background. INVALID_ARGUMENT: librdkafka refuses an option.
  // RESOURCE_EXHAUSTED: no memory or thread. `listener` outlives it.
  static absl::StatusOr<std::unique_ptr<KafkaConsumer>> Open(const Options& options,
                                                             Listener& listener);
  // Leaves the group without waiting for it, unless Close has done so.
  ~KafkaConsumer();
  KafkaConsumer(const KafkaConsumer&) = delete;
  KafkaConsumer& operator=(const KafkaConsumer&) = delete;

  // Joins the group in the background.
  void Subscribe();

  // The next message; null if none comes in time, or after Wake.
  KafkaMessagePtr Poll(absl::Duration timeout);
  void Wake();

  // A paused partition yields no messages. Resumed, it goes on after the last one. Partitions that
  // are so already stay as they are.
  void Pause(const std::vector<KafkaPlace>& places);
  void Resume(const std::vector<KafkaPlace>& places);

  // Reads a paused partition from this offset on once it is resumed.
  void Seek(const KafkaPlace& place, int64_t offset);

  // `next`: the offset of the next message to read.
  void StoreOffset(const KafkaPlace& place, int64_t next);
  // The end of the partition, as the last fetch has shown it. nullopt: none has.
  std::optional<int64_t> EndOf(const KafkaPlace& place);

  // Gives the partitions back, commits, and leaves the group. False: `expired` said so first.
  bool Close(absl::FunctionRef<bool()> expired);

 private:
  KafkaConsumer(const Options& options, Listener& listener)
      : listener_(listener), topics_(options.topics), password_(options.access.sasl_password) {}

  static void OnRebalance(rd_kafka_t* handle, rd_kafka_resp_err_t event,
                          rd_kafka_topic_partition_list_t* partitions, void* self);
  static void OnError(rd_kafka_t* handle, int error, const char* reason, void* self);

  Listener& listener_;
  const std::vector<std::string> topics_;
  const std::string password_;
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  std::set<KafkaPlace> paused_;
  bool closed_ = false;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_CONSUMER_H_
