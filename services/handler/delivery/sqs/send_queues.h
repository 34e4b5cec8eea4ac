// SqsSendQueues: attempts that wait for a request, by queue of SQS. Decides how many requests each
// queue may have and which attempts they carry.
//
// The attempts of a queue wait in lanes. A request carries attempts of one lane, or of several
// lanes that have the same region, credentials and timeout. A FIFO queue has one lane for each
// message group, and a lane of a FIFO queue is in one request at a time: so the messages of a group
// are sent in their order. Lanes and queues exist only while they have attempts.
//
// A queue has at most requests_max requests at once, so that a slow queue does not take all
// connections. A queue that has not taken a request yet may have kRequestsUnansweredMax. Each
// request that it takes doubles that. After a request without an answer it is one.
//
// A request is first claimed (it is about to start), then takes its attempts as late as it can (so
// that attempts that came later join it), and is released when it has ended.
//
// Threads: none; the caller locks. Takes `now`, starts nothing.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_SEND_QUEUES_H_
#define SERVICES_HANDLER_DELIVERY_SQS_SEND_QUEUES_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

inline constexpr size_t kSqsEntriesMax = 10;  // messages of one request; a limit of SQS

class SqsSendQueues {
 public:
  struct Lane;
  struct Queue;
  struct Waiting {
    DeliveryAttempt attempt;
    std::shared_ptr<DeliverySink> sink;
    MonotonicMicros start_by = 0;  // later, too little of the timeout would be left
    MonotonicMicros deadline = 0;
    bool alone = false;  // does not share its request
    Lane* lane = nullptr;
  };
  // The attempts of one request.
  struct Batch {
    Queue* queue = nullptr;
    std::vector<Waiting> attempts;
    std::vector<Lane*> lanes;  // the request's
  };
  static constexpr int kRequestsUnansweredMax = 2;

  // `own_usable`: attempts without credentials may be sent. Else they wait for AllowOwn.
  SqsSendQueues(int requests_max, bool own_usable);
  ~SqsSendQueues();

  // All attempts must have one target_key.
  Queue* Add(std::vector<DeliveryAttempt> attempts, const std::shared_ptr<DeliverySink>& sink,
             MonotonicMicros now);
  // Returns the queues that have attempts which may be sent now.
  std::vector<Queue*> AllowOwn();

  // How many more requests the queue needs and may have. They count as claimed. Afterwards the
  // queue may be gone, if it has none.
  int Claim(Queue* queue);
  // Makes a claimed request a running one, with up to kSqsEntriesMax attempts in the order of their
  // lanes. Attempts that waited too long go to `expired`. Release must follow, also if there are no
  // attempts.
  Batch Take(Queue* queue, MonotonicMicros now, std::vector<Waiting>* expired);
  // Returns attempts of a running request to the front of their lanes. They must be the last ones
  // of the batch, or all.
  void PutBack(std::vector<Waiting> attempts);
  enum class End {
    kTaken,   // the queue answered for each message
    kSilent,  // no answer
    kOther,   // refused as a whole (it may be throttled), or not sent
  };
  void Release(Batch batch, End end);
  // Ends a claimed request that took nothing.
  void Unclaim(Queue* queue);

  // A lower bound for when attempts expire.
  MonotonicMicros expire_at() const { return expire_at_; }
  // Removes attempts that waited too long.
  std::vector<Waiting> Expire(MonotonicMicros now);
  // Removes all attempts that wait.
  std::vector<Waiting> TakeAll();

 private:
  Lane* LaneOf(Queue* queue, const DeliveryContext& context);
  void MarkReady(Lane* lane);
  void ForgetIfUnused(Lane* lane);
  void ForgetIfUnused(Queue* queue);
  void ForgetEmptyLanes(Queue* queue);
  // Takes attempts of a lane. False if the batch is complete.
  bool TakeFrom(Lane* lane, MonotonicMicros now, Batch* batch, std::vector<Waiting>* expired);

  const int requests_max_;
  bool own_usable_;
  absl::flat_hash_map<std::string, std::unique_ptr<Queue>> queues_;  // by target_key
  MonotonicMicros expire_at_ = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_SEND_QUEUES_H_
