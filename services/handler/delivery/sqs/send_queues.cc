#include "services/handler/delivery/sqs/send_queues.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/sqs/message.h"

namespace escapement::handler {

struct SqsSendQueues::Lane {
  Queue* queue;
  std::string key;
  std::string door;  // lanes with the same one may share requests
  bool own = false;  // has no credentials
  bool fifo = false;
  bool ready = false;                // is in Queue::ready
  int requests = 0;                  // running ones
  std::deque<Waiting> waiting = {};  // in the order of start_by, except those put back
};

struct SqsSendQueues::Queue {
  std::string key;
  int requests_max;
  int claimed = 0;
  int running = 0;
  absl::flat_hash_map<std::string, std::unique_ptr<Lane>> lanes = {};
  std::deque<Lane*> ready = {};  // have attempts that may be sent
};

SqsSendQueues::SqsSendQueues(int requests_max, bool own_usable)
    : requests_max_(requests_max), own_usable_(own_usable) {}

SqsSendQueues::~SqsSendQueues() = default;

SqsSendQueues::Lane* SqsSendQueues::LaneOf(Queue* queue, const DeliveryContext& context) {
  const storage::v1::SqsTargetRecord& sqs = context.definition->delivery().target().sqs();
  std::string door = absl::StrCat(sqs.region(), " ", absl::ToInt64Microseconds(context.timeout),
                                  " ", sqs.credentials());
  const bool fifo = IsFifoQueue(sqs.queue_url());
  std::string key = fifo ? absl::StrCat(door, " ", MessageGroupOf(context)) : door;
  std::unique_ptr<Lane>& lane = queue->lanes[key];
  if (lane == nullptr) {
    lane = std::make_unique<Lane>(Lane{.queue = queue,
                                       .key = std::move(key),
                                       .door = std::move(door),
                                       .own = sqs.credentials().empty(),
                                       .fifo = fifo});
  }
  return lane.get();
}

SqsSendQueues::Queue* SqsSendQueues::Add(std::vector<DeliveryAttempt> attempts,
                                         const std::shared_ptr<DeliverySink>& sink,
                                         MonotonicMicros now) {
  const std::string& key = attempts.front().context->target_key;
  std::unique_ptr<Queue>& queue = queues_[key];
  if (queue == nullptr) {
    queue = std::make_unique<Queue>(
        Queue{.key = key, .requests_max = std::min(kRequestsUnansweredMax, requests_max_)});
  }
  const DeliveryContext* context = nullptr;
  Lane* lane = nullptr;
  for (DeliveryAttempt& attempt : attempts) {
    if (context != attempt.context.get()) {
      context = attempt.context.get();
      lane = LaneOf(queue.get(), *context);
    }
    const MonotonicMicros timeout = TimeoutMicros(context->timeout);
    const MonotonicMicros start_by = now + timeout / 2;
    expire_at_ = std::min(expire_at_, start_by);
    lane->waiting.push_back({.attempt = std::move(attempt),
                             .sink = sink,
                             .start_by = start_by,
                             .deadline = now + timeout,
                             .lane = lane});
    MarkReady(lane);
  }
  return queue.get();
}

std::vector<SqsSendQueues::Queue*> SqsSendQueues::AllowOwn() {
  own_usable_ = true;
  std::vector<Queue*> woken;
  for (auto& [key, queue] : queues_) {
    for (auto& [lane_key, lane] : queue->lanes) MarkReady(lane.get());
    if (!queue->ready.empty()) woken.push_back(queue.get());
  }
  return woken;
}

void SqsSendQueues::MarkReady(Lane* lane) {
  if (lane->ready || lane->waiting.empty()) return;
  if (lane->fifo && lane->requests > 0) return;
  if (lane->own && !own_usable_) return;
  lane->ready = true;
  lane->queue->ready.push_back(lane);
}

void SqsSendQueues::ForgetIfUnused(Lane* lane) {
  if (lane->ready || !lane->waiting.empty() || lane->requests > 0) return;
  lane->queue->lanes.erase(std::string(lane->key));
}

void SqsSendQueues::ForgetIfUnused(Queue* queue) {
  if (!queue->lanes.empty() || queue->claimed > 0 || queue->running > 0) return;
  queues_.erase(std::string(queue->key));
}

void SqsSendQueues::ForgetEmptyLanes(Queue* queue) {
  std::erase_if(queue->ready, [](Lane* lane) {
    lane->ready = !lane->waiting.empty();
    return !lane->ready;
  });
  for (auto lane = queue->lanes.begin(); lane != queue->lanes.end();)
    ForgetIfUnused((lane++)->second.get());
}

int SqsSendQueues::Claim(Queue* queue) {
  int more = 0;
  size_t sendable = 0;
  for (const Lane* lane : queue->ready) {
    sendable += lane->waiting.size();
    while (queue->claimed + queue->running < queue->requests_max &&
           sendable > static_cast<size_t>(queue->claimed) * kSqsEntriesMax) {
      ++queue->claimed;
      ++more;
    }
    if (queue->claimed + queue->running >= queue->requests_max) break;
  }
  ForgetIfUnused(queue);
  return more;
}

bool SqsSendQueues::TakeFrom(Lane* lane, MonotonicMicros now, Batch* batch,
                             std::vector<Waiting>* expired) {
  bool complete = false;
  bool took = false;
  while (!complete && !lane->waiting.empty()) {
    Waiting& next = lane->waiting.front();
    if (next.start_by > now) {
      complete = next.alone || batch->attempts.size() + 1 == kSqsEntriesMax;
      if (next.alone && !batch->attempts.empty()) break;
      batch->attempts.push_back(std::move(next));
      took = true;
    } else {
      expired->push_back(std::move(next));
    }
    lane->waiting.pop_front();
  }
  if (took) {
    ++lane->requests;
    batch->lanes.push_back(lane);
  }
  return !complete;
}

SqsSendQueues::Batch SqsSendQueues::Take(Queue* queue, MonotonicMicros now,
                                         std::vector<Waiting>* expired) {
  --queue->claimed;
  ++queue->running;
  Batch batch;
  batch.queue = queue;
  bool more = true;
  while (more && !queue->ready.empty()) {
    Lane* const lane = queue->ready.front();
    if (!batch.lanes.empty() && batch.lanes.front()->door != lane->door) break;
    queue->ready.pop_front();
    lane->ready = false;
    more = TakeFrom(lane, now, &batch, expired);
    MarkReady(lane);
    ForgetIfUnused(lane);
  }
  return batch;
}

void SqsSendQueues::PutBack(std::vector<Waiting> attempts) {
  for (auto waiting = attempts.rbegin(); waiting != attempts.rend(); ++waiting) {
    Lane* const lane = waiting->lane;
    expire_at_ = std::min(expire_at_, waiting->start_by);
    lane->waiting.push_front(std::move(*waiting));
    MarkReady(lane);
  }
}

void SqsSendQueues::Release(Batch batch, End end) {
  Queue* const queue = batch.queue;
  --queue->running;
  if (end == End::kTaken) queue->requests_max = std::min(2 * queue->requests_max, requests_max_);
  if (end == End::kSilent) queue->requests_max = 1;
  for (Lane* lane : batch.lanes) {
    --lane->requests;
    MarkReady(lane);
    ForgetIfUnused(lane);
  }
}

void SqsSendQueues::Unclaim(Queue* queue) { --queue->claimed; }

std::vector<SqsSendQueues::Waiting> SqsSendQueues::Expire(MonotonicMicros now) {
  std::vector<Waiting> expired;
  expire_at_ = kNeverMicros;
  for (auto found = queues_.begin(); found != queues_.end();) {
    Queue* const queue = (found++)->second.get();
    for (auto& [key, lane] : queue->lanes) {
      while (!lane->waiting.empty() && lane->waiting.front().start_by <= now) {
        expired.push_back(std::move(lane->waiting.front()));
        lane->waiting.pop_front();
      }
      if (!lane->waiting.empty()) expire_at_ = std::min(expire_at_, lane->waiting.front().start_by);
    }
    ForgetEmptyLanes(queue);
    ForgetIfUnused(queue);
  }
  return expired;
}

std::vector<SqsSendQueues::Waiting> SqsSendQueues::TakeAll() { return Expire(kNeverMicros); }

}  // namespace escapement::handler
