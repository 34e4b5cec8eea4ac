// GrpcLane: one stream to a target. DeliveryEncoder: the bytes of its messages. StreamEnds: where
// lanes and channels go when they are no longer used.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_LANE_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_LANE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/net/name_resolver.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/grpc/grpc_transport.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace escapement::storage::v1 {
class GrpcTargetRecord;
}  // namespace escapement::storage::v1

namespace escapement::v1 {
class DeliveryResult;
}  // namespace escapement::v1

namespace escapement::handler {

class GrpcLane;

// StreamEnds: collects the lanes of ended streams, so that the transport's own threads drop them. A
// gRPC thread must not drop the last reference to a channel, whose destructor may wait for this
// very thread.
//
// Threads: any.
class StreamEnds {
 public:
  void AddStream();
  // The last call of a stream.
  void RemoveStream(std::shared_ptr<GrpcLane> lane);
  // Drops the channel later, too.
  void Leave(std::shared_ptr<grpc::Channel> channel);
  // Drops the lanes of ended streams, and the channels that were left.
  void Drop();
  // Waits until every stream has ended, and drops their lanes.
  void AwaitAll();

 private:
  absl::Mutex mutex_;
  uint64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<GrpcLane>> left_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

// DeliveryEncoder: writes the bytes of escapement.v1.Delivery without the message class. The part
// that the events of one queue row share is serialized once, so an attempt costs one copy.
//
// Keeps the common bytes of the last row. One thread at a time.
class DeliveryEncoder {
 public:
  // Sets `*bytes` to the serialized Delivery of this attempt. A reused string keeps its memory.
  void Encode(const DeliveryAttempt& attempt, uint64_t delivery_number, std::string* bytes);

 private:
  std::shared_ptr<const DeliveryContext> context_;
  std::string common_;  // all fields but delivery_number, event_id, index, attempt and token
};

// GrpcLane: the queue, the unanswered attempts and the reconnects of one stream to a target.
//
// Threads: any. The lane calls sinks without its lock.
class GrpcLane : public std::enable_shared_from_this<GrpcLane> {
 public:
  // `resolver` must live until Stop has returned. `tick_by` asks for a Tick at that instant; it is
  // called with the lane's lock held, and never after Stop has returned.
  GrpcLane(const GrpcTransport::Options& options, const storage::v1::GrpcTargetRecord& target,
           NameResolver& resolver, std::shared_ptr<StreamEnds> ends,
           std::function<void(MonotonicMicros)> tick_by);
  ~GrpcLane();

  // Takes the attempts. If the lane is retired, returns false and leaves them.
  bool Send(std::vector<DeliveryAttempt>* attempts, const std::shared_ptr<DeliverySink>& sink);

  // Answers attempts past their deadline, reconnects when due, closes an idle stream. Returns when
  // it must be called next; nullopt if the lane was empty and is now retired.
  std::optional<MonotonicMicros> Tick(MonotonicMicros now);

  // True if its channel must carry no further attempt.
  bool IsOld(MonotonicMicros now) const;

  // Retires the lane, answers everything with kUnknown, and returns when it has no stream.
  void Stop();

 private:
  class Stream;
  struct Waiting {
    DeliveryAttempt attempt;
    std::shared_ptr<DeliverySink> sink;
    MonotonicMicros deadline = 0;
  };
  struct Unanswered {
    uint64_t tag = 0;
    std::shared_ptr<DeliverySink> sink;
    MonotonicMicros deadline = 0;
    MonotonicMicros written = 0;
  };
  // A result that goes to its sink once the lock is released.
  struct Answer {
    std::shared_ptr<DeliverySink> sink;
    uint64_t tag = 0;
    DeliveryResult result;
  };
  using Answers = std::vector<Answer>;

  // Opens a stream if one is needed and its time has come. Without a channel it begins to look up
  // the target's addresses instead.
  void OpenStream(MonotonicMicros now, Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the channel to the addresses that are allowed. Otherwise ends what waits, and tries again
  // later.
  void UseAddresses(NameResolver::Answer addresses, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnResolved(NameResolver::Answer addresses);
  void BackOff(MonotonicMicros now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpireAll(MonotonicMicros now, Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUpSilent(MonotonicMicros now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BreakUnanswered(const DeliveryResult& result, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWaiting(const DeliveryResult& result, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MonotonicMicros NextTick() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void GiveAnswers(Answers answers);

  // Called by the stream.
  void OnResult(Stream* stream, const v1::DeliveryResult& result);
  void OnWritten(Stream* stream, bool ok);
  void OnBroken(Stream* stream);  // nothing more can be read or written
  void OnEnded(Stream* stream, const grpc::Status& status);

  const GrpcTransport::Options options_;
  NameResolver& resolver_;
  const std::shared_ptr<StreamEnds> ends_;
  const std::function<void(MonotonicMicros)> tick_by_;
  const TargetChannel target_;

  mutable absl::Mutex mutex_;
  // To the addresses that were looked up last. Null: they must be looked up.
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  MonotonicMicros opened_ ABSL_GUARDED_BY(mutex_) = 0;  // when channel_ was made
  bool resolving_ ABSL_GUARDED_BY(mutex_) = false;
  // The stream owns itself from OpenStream to OnEnded; null: there is none. A new stream opens only
  // after the end of the old one, so all unanswered attempts belong to one stream.
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
  DeliveryEncoder encoder_ ABSL_GUARDED_BY(mutex_);
  std::string bytes_ ABSL_GUARDED_BY(mutex_);  // a buffer for the message to write
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // By delivery number.
  absl::flat_hash_map<uint64_t, Unanswered> unanswered_ ABSL_GUARDED_BY(mutex_);
  // A lower bound for the deadlines of waiting_ and unanswered_.
  MonotonicMicros earliest_deadline_ ABSL_GUARDED_BY(mutex_) = kNeverMicros;
  // No stream opens before this time.
  MonotonicMicros reconnect_at_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the stream closes if nothing more is sent.
  MonotonicMicros idle_at_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_LANE_H_
