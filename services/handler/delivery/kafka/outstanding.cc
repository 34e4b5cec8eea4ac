#include "services/handler/delivery/kafka/outstanding.h"

#include <limits>

namespace escapement::handler {

void KafkaDeadlines::Add(KafkaAttempt* attempt) {
  // The end of the step is at or after the deadline, so Expire never comes early.
  const KafkaMicros step = attempt->deadline / kStep + 1;
  if (last_ == nullptr || step != last_step_) {
    last_ = &steps_[step];
    last_step_ = step;
  }
  KafkaAttempt*& head = *last_;
  attempt->next = head;
  if (head != nullptr) head->link = &attempt->next;
  head = attempt;
  attempt->link = &head;
}

void KafkaDeadlines::Remove(KafkaAttempt* attempt) {
  *attempt->link = attempt->next;
  if (attempt->next != nullptr) attempt->next->link = attempt->link;
  attempt->next = nullptr;
  attempt->link = nullptr;
}

void KafkaDeadlines::Expire(KafkaMicros now, absl::FunctionRef<void(KafkaAttempt*)> expired) {
  while (!steps_.empty() && steps_.begin()->first * kStep <= now) {
    while (KafkaAttempt* attempt = steps_.begin()->second) {
      Remove(attempt);
      expired(attempt);
    }
    last_ = nullptr;
    steps_.erase(steps_.begin());
  }
}

KafkaMicros KafkaDeadlines::next() const {
  return steps_.empty() ? std::numeric_limits<KafkaMicros>::max() : steps_.begin()->first * kStep;
}

}  // namespace escapement::handler
