// PartitionSet: the partitions that this process reads, and why they are paused.
//
// A partition is paused while messages of it wait to be tried again (Hold), while it is rewound, or
// with all others (PauseAll). A partition that is assigned again, or rewound, is another object;
// the former one is `gone`, and answers about its messages do not count.
//
// Threads: one at a time, the consumer's.

#ifndef SERVICES_MASTER_INGEST_KAFKA_PARTITION_SET_H_
#define SERVICES_MASTER_INGEST_KAFKA_PARTITION_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "services/master/ingest/kafka/consumer.h"
#include "services/master/ingest/kafka/kafka_batch.h"

namespace escapement::master {

class PartitionSet {
 public:
  using Pointer = std::shared_ptr<IngestPartition>;

  // It outlives the set.
  explicit PartitionSet(KafkaConsumer& consumer) : consumer_(consumer) {}

  // They are not paused.
  void Assign(const std::vector<KafkaPlace>& places);
  // The partitions of `places` that are in the set.
  std::vector<Pointer> Find(const std::vector<KafkaPlace>& places) const;
  std::vector<Pointer> All() const;
  void Remove(const std::vector<Pointer>& partitions);

  // The partition whose next message this is. Null if the message must be dropped: the partition
  // was taken away, or is not yet where it was rewound to.
  Pointer Take(const KafkaMessageView& message);

  // The partition is paused until the item is released.
  void Hold(IngestItem& item);
  void Release(const IngestItem& item);
  // The message has an answer.
  void Finish(const IngestItem& item);

  // Reads the partition again from its first message without an answer, once `resume_at` has come.
  // There is such a message.
  void Rewind(IngestPartition& partition, absl::Duration resume_at);
  void ResumeRewound(absl::Duration now);

  void PauseAll();
  // Partitions that have no other reason to be paused go on.
  void ResumeAll();
  bool all_paused() const { return all_paused_; }

  // Tells the consumer which offsets may be committed.
  void StoreOffsets();

  // Messages without an answer, as far as known.
  int64_t Lag() const;
  size_t CountPaused() const;
  size_t size() const { return partitions_.size(); }

 private:
  static bool IsPaused(const IngestPartition& partition);
  // False: the message is not one that the rewound partition can begin with.
  bool Continues(IngestPartition& partition, int64_t offset);

  KafkaConsumer& consumer_;
  std::map<KafkaPlace, Pointer> partitions_;
  bool all_paused_ = false;
  bool finished_any_ = false;  // since StoreOffsets
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_PARTITION_SET_H_
