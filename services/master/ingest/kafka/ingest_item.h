// The messages that an ingestion works on, and the partitions that they come from.
//
// Plain values of the ingestion's thread.

#ifndef SERVICES_MASTER_INGEST_KAFKA_INGEST_ITEM_H_
#define SERVICES_MASTER_INGEST_KAFKA_INGEST_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "services/master/ingest/kafka/consumer.h"
#include "services/master/ingest/kafka/message_decoder.h"
#include "services/master/ingest/kafka/offset_tracker.h"

namespace escapement::master {

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

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_INGEST_ITEM_H_
