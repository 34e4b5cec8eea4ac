// The messages that an ingestion works on: each one (IngestItem), the partition that it comes from
// (IngestPartition), and those that go to the store together (KafkaBatch).

#ifndef SERVICES_MASTER_INGEST_KAFKA_KAFKA_BATCH_H_
#define SERVICES_MASTER_INGEST_KAFKA_KAFKA_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "escapement/v1/event_service.pb.h"
#include "services/master/ingest/kafka/consumer.h"
#include "services/master/ingest/kafka/message_decoder.h"
#include "services/master/ingest/kafka/offset_tracker.h"

namespace escapement::master {

// The messages that an ingestion works on, and the partitions that they come from.
//
// Plain values of the ingestion's thread.

// A partition from its assignment until it is revoked or rewound. Then it is another object.
struct IngestPartition {
  KafkaPlace place;
  OffsetTracker tracker;
  bool gone = false;     // revoked or rewound: its messages are dropped, whatever their answer
  size_t under_way = 0;  // messages that wait for the store or the error topic
  size_t holds = 0;      // messages that wait to be tried again; the partition is paused if any
  // Only if it was rewound. It is paused until `resume_at`. Its first message is one that was read
  // before, so it is at most `read_to`.
  absl::Duration resume_at = absl::InfiniteDuration();
  int64_t rewound_to = -1;
  int64_t read_to = -1;  // -1: was not rewound
  int seeks = 0;         // tries to get back to `rewound_to`
};

struct IngestItem {
  std::shared_ptr<IngestPartition> partition;
  KafkaMessagePtr message;
  bool holding = false;  // counts among the partition's holds
};

// Views of the message's own memory.
KafkaMessageView ViewOf(const rd_kafka_message_t& message);

// The message's part of the bound on memory.
size_t BytesOf(const rd_kafka_message_t& message);

// The meaning of a refusal of a batch.
enum class RefusalKind : uint8_t {
  kRetry,       // the same batch may be accepted later
  kRetryParts,  // each half may be accepted later
  kSplit,       // one half may be accepted now
  kFinal,       // none of its messages will be accepted
};

RefusalKind KindOfRefusal(const absl::Status& refusal, size_t messages);

// KafkaBatch: messages of one tenant that go to the store together, and what happens to each of
// them after an answer.
//
// Moves, and belongs to one thread: messages of librdkafka must not outlive their consumer. Only
// the request is shared with the store; it does not change while the store may read it.
class KafkaBatch {
 public:
  explicit KafkaBatch(std::string tenant);

  void Add(IngestItem item, v1::IngestEvent event);
  // Removes the messages for which `refused` is true, and gives them to `take` with their position.
  void RemoveIf(absl::FunctionRef<bool(size_t position, const IngestItem& item)> refused,
                absl::FunctionRef<void(size_t position, IngestItem item)> take);
  // Moves the second half of the messages to a batch of their own. There are at least two.
  KafkaBatch TakeHalf();

  const std::string& tenant() const { return tenant_; }
  const std::shared_ptr<v1::IngestRequest>& request() const { return request_; }
  std::vector<IngestItem>& items() { return items_; }
  size_t size() const { return items_.size(); }
  // A message of it replaces or cancels an event: it waits for the batches before it, and those
  // behind it wait for it.
  bool goes_alone() const { return goes_alone_; }
  size_t bytes() const { return bytes_; }

  uint32_t tries = 0;                              // that have failed for now
  absl::Duration sent = absl::ZeroDuration();      // by the clock's Elapsed
  absl::Duration retry_at = absl::ZeroDuration();  // if it waits to be tried again

 private:
  std::string tenant_;
  std::shared_ptr<v1::IngestRequest> request_;  // has the event of each item, in the same order
  std::vector<IngestItem> items_;
  bool goes_alone_ = false;
  size_t bytes_ = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_KAFKA_BATCH_H_
