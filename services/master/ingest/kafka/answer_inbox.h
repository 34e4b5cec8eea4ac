// AnswerInbox: brings the store's answers from the master's executor to the ingestion's thread.
//
// Threads: any. It may outlive the ingestion: an answer that comes later is dropped.

#ifndef SERVICES_MASTER_INGEST_KAFKA_ANSWER_INBOX_H_
#define SERVICES_MASTER_INGEST_KAFKA_ANSWER_INBOX_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::master {

class AnswerInbox {
 public:
  struct Answer {
    uint64_t batch = 0;
    absl::StatusOr<v1::IngestResponse> response;
  };

  // `wake` is called, under the inbox's lock, after each answer.
  explicit AnswerInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Add(Answer answer) {
    absl::MutexLock lock(&mutex_);
    if (wake_ == nullptr) return;
    answers_.push_back(std::move(answer));
    wake_();
  }

  // All answers that have come. Waits up to `patience` for one.
  std::vector<Answer> Take(absl::Duration patience) {
    absl::MutexLock lock(&mutex_);
    if (patience > absl::ZeroDuration()) {
      mutex_.AwaitWithTimeout(
          absl::Condition(
              +[](std::vector<Answer>* answers) { return !answers->empty(); }, &answers_),
          patience);
    }
    return std::exchange(answers_, {});
  }

  // From now on answers are dropped, and `wake` is not called.
  void Close() {
    absl::MutexLock lock(&mutex_);
    wake_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);  // null: closed
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_ANSWER_INBOX_H_
