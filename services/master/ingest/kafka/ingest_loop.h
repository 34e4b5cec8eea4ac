// Metrics of the ingestion from Kafka.

#ifndef SERVICES_MASTER_INGEST_KAFKA_INGEST_LOOP_H_
#define SERVICES_MASTER_INGEST_KAFKA_INGEST_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/method_access.h"
#include "common/runtime/runtime.h"
#include "services/master/api/master_apis.h"
#include "services/master/ingest/kafka/answer_inbox.h"
#include "services/master/ingest/kafka/consumer.h"
#include "services/master/ingest/kafka/error_topic.h"
#include "services/master/ingest/kafka/kafka_batch.h"
#include "services/master/ingest/kafka/options.h"
#include "services/master/ingest/kafka/partition_set.h"

namespace escapement::master {

struct KafkaIngestMetrics {
  // `metrics` outlives it.
  explicit KafkaIngestMetrics(Metrics& metrics);

  Counter& messages;  // read
  Counter& events;    // made durable
  Counter& duplicates;
  Counter& errors;           // acknowledged by the error topic
  Counter& retries;          // batches that are tried again
  Histogram& batch_seconds;  // from sending a batch until the store's answer
  Gauge& partitions;         // assigned to this process
  Gauge& paused;             // partitions that wait to be tried again
  Gauge& lag;                // messages of its partitions that have no answer
  Gauge& in_flight;          // messages in memory
  Gauge& in_flight_bytes;
};

// IngestLoop: makes one-off events from the messages of Kafka topics. KafkaIngest has the thread
// that runs it.
//
//   consumer → decoder → a batch per tenant → EventApi::IngestBatch → answer → offset
//
// A message that can never make an event goes to the error topic, whose answer counts likewise.
//
// The offset of a message may be committed once the store or the error topic has answered for it
// and for all messages before it. After a crash the messages without a committed offset are read
// again. Their events have the same ids, so none is made twice.
//
// A batch that may be accepted later (no store, a quota) waits with growing delay. Its partitions
// are paused until then; others go on. A batch that is refused for some of its messages is sent
// again without them.
//
// Bounds: messages in memory, and their bytes. Beyond, nothing is read. Messages that wait to be
// tried again may have half of that, so that paused partitions leave room for the others. Beyond
// it, a partition is rewound: its messages are dropped, and read again after backoff_max.
//
// Rebalance: a partition that is taken away is waited for up to revoke_patience. Then whatever has
// no answer is dropped, and no offset of it is stored.
//
// Threads: all calls come from one thread, except Wake.

class IngestLoop final : private KafkaConsumer::Listener, private ErrorTopic::Listener {
 public:
  // All outlive it.
  IngestLoop(const KafkaIngestOptions& options, EventApi& events, CallGate& gate, Runtime& runtime,
             Metrics& metrics);
  ~IngestLoop() override;

  // Makes the clients. INVALID_ARGUMENT or RESOURCE_EXHAUSTED.
  absl::Status Open();
  // Joins the group.
  void Subscribe() { consumer_->Subscribe(); }
  // Handles what has come, and waits up to 100 ms for more.
  void Step();
  // Ends a Step that waits. Any thread, after Open and before the destructor.
  void Wake() { consumer_->Wake(); }
  // Waits for answers, then commits and leaves the group, each for at most stop_patience. Nothing
  // may be called after it.
  void Finish();

 private:
  void OnAssigned(const std::vector<KafkaPlace>& places) override;
  void OnRevoked(const std::vector<KafkaPlace>& places, bool lost) override;
  void OnTrouble(const std::string& text) override;
  void OnErrorRecorded(IngestItem item) override;
  void OnErrorDelayed(IngestItem& item, const std::string& why) override;

  void Read();
  void WaitForRoom();
  void OnMessage(KafkaMessagePtr message);

  // Sends what was gathered for each tenant that has no batch under way.
  void SendGathered();
  void Send(KafkaBatch batch);
  void SendDue();
  void TakeAnswers(absl::Duration patience);
  void OnAnswer(KafkaBatch batch, const absl::StatusOr<v1::IngestResponse>& response);
  void OnRefusal(KafkaBatch batch, const absl::Status& refusal);
  // Messages without effect go to the error topic, or are tried again: those whose id belongs to an
  // event that was cancelled, and those that could replace or cancel nothing.
  void RecordRefused(KafkaBatch& batch, const v1::IngestResponse& response);
  // No batch is in its way (KafkaBatch::goes_alone).
  bool MayGo(const KafkaBatch& batch) const;
  void TryLater(KafkaBatch batch, const absl::Status& refusal);
  bool HasRoomToWait(const KafkaBatch& batch) const;
  void RecordError(IngestItem item, const absl::Status& why);

  // The store or the error topic has answered for the message.
  void Finish(IngestItem item);
  // Forgets the message.
  void Drop(IngestItem item);
  // Drops the messages of partitions that are gone.
  void DropGone(KafkaBatch& batch);
  void DropGoneEverywhere();
  // Waits until they have no messages under way.
  void AwaitAnswers(const std::vector<PartitionSet::Pointer>& partitions, absl::Duration end);
  void ShowGauges();
  bool Full() const;
  absl::Duration Now() const { return runtime_.clock().Elapsed(); }

  const KafkaIngestOptions& options_;
  EventApi& events_;
  CallGate& gate_;
  Runtime& runtime_;
  KafkaIngestMetrics metrics_;
  const MethodAccess method_;  // EventService.Ingest
  const std::shared_ptr<const Caller> caller_;
  const std::shared_ptr<AnswerInbox> inbox_;

  // Destroyed in the reverse order: messages before the error topic's, and those before the
  // consumer.
  std::unique_ptr<KafkaConsumer> consumer_;
  std::unique_ptr<ErrorTopic> errors_;
  std::unique_ptr<PartitionSet> partitions_;
  std::map<std::string, KafkaBatch> gathering_;         // by tenant
  std::map<std::string, std::deque<KafkaBatch>> full_;  // to be sent, before what is gathered
  absl::flat_hash_map<uint64_t, KafkaBatch> under_way_;
  std::map<std::string, int> under_way_of_;  // batches, by tenant
  std::vector<KafkaBatch> waiting_;          // to be tried again
  uint64_t last_batch_ = 0;
  size_t in_flight_ = 0;
  size_t in_flight_bytes_ = 0;
  bool finishing_ = false;  // Finish has waited for answers, or does
  absl::Duration full_since_ = absl::InfiniteDuration();
  absl::Duration lag_shown_ = -absl::InfiniteDuration();
  absl::Duration trouble_logged_ = -absl::InfiniteDuration();
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_INGEST_LOOP_H_
