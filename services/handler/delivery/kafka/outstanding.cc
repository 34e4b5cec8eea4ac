#include "services/handler/delivery/kafka/outstanding.h"

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"

namespace escapement::handler {

void KafkaDeadlines::Add(KafkaAttempt* attempt) {
  // The end of the step is at or after the deadline, so Expire never comes early.
  const MonotonicMicros step = attempt->deadline / kStep + 1;
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

void KafkaDeadlines::Expire(MonotonicMicros now, absl::FunctionRef<void(KafkaAttempt*)> expired) {
  while (!steps_.empty() && steps_.begin()->first * kStep <= now) {
    while (KafkaAttempt* attempt = steps_.begin()->second) {
      Remove(attempt);
      expired(attempt);
    }
    last_ = nullptr;
    steps_.erase(steps_.begin());
  }
}

MonotonicMicros KafkaDeadlines::next() const {
  return steps_.empty() ? kNeverMicros : steps_.begin()->first * kStep;
}

namespace {

// The errors that name the record itself, or the batch it was in.
bool RefusesRecord(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
      return true;
    default:
      return false;
  }
}

bool TimedOut(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || error == RD_KAFKA_RESP_ERR__TIMED_OUT;
}

bool Purged(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR__PURGE_QUEUE || error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

DeliveryStatus StatusOf(const KafkaReport& report) {
  if (report.error == RD_KAFKA_RESP_ERR_NO_ERROR) return DeliveryStatus::kAccepted;
  if (report.error == RD_KAFKA_RESP_ERR__QUEUE_FULL) return DeliveryStatus::kUnsent;
  if (RefusesRecord(report.error))
    return report.alone ? DeliveryStatus::kRejected : DeliveryStatus::kFailed;
  if (report.possibly_persisted) return DeliveryStatus::kUnknown;
  // Nothing was written. If no other record got through either, the cluster cannot be reached.
  if (TimedOut(report.error) || report.error == RD_KAFKA_RESP_ERR__TRANSPORT)
    return report.delivering ? DeliveryStatus::kUnsent : DeliveryStatus::kFailed;
  return DeliveryStatus::kFailed;
}

std::string MessageOf(const KafkaReport& report) {
  if (report.error == RD_KAFKA_RESP_ERR_NO_ERROR) return "";
  if (report.error == RD_KAFKA_RESP_ERR__QUEUE_FULL)
    return "too many records wait for this Kafka cluster";
  // A purge is our own act: the trouble says why.
  std::string message = Purged(report.error) ? "" : rd_kafka_err2str(report.error);
  if (!report.trouble.empty() && report.error < 0)
    absl::StrAppend(&message, message.empty() ? "" : ": ", report.trouble);
  if (message.empty()) message = "the Kafka producer was closed";
  return CleanText(message, kDeliveryMessageBytesMax);
}

}  // namespace

DeliveryResult ResultOfReport(const KafkaReport& report) {
  const bool unreached = TimedOut(report.error) || report.error == RD_KAFKA_RESP_ERR__TRANSPORT;
  return {.status = StatusOf(report),
          .not_sent = unreached && !report.possibly_persisted,
          .message = MessageOf(report),
          .status_code = static_cast<int32_t>(report.error)};
}

}  // namespace escapement::handler
