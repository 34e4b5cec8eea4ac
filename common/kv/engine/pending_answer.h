// PendingAnswer: a store's promise to call back exactly once. If it is destroyed without an answer,
// it answers UNAVAILABLE.

#ifndef COMMON_KV_ENGINE_PENDING_ANSWER_H_
#define COMMON_KV_ENGINE_PENDING_ANSWER_H_

#include <functional>
#include <utility>

#include "absl/status/statusor.h"

namespace escapement::kv {

template <typename T>
class PendingAnswer {
 public:
  explicit PendingAnswer(std::function<void(absl::StatusOr<T>)> done) : done_(std::move(done)) {}
  PendingAnswer(PendingAnswer&& other) noexcept : done_(std::exchange(other.done_, nullptr)) {}
  PendingAnswer& operator=(PendingAnswer&&) = delete;
  ~PendingAnswer() {
    if (done_) done_(absl::UnavailableError("the store has stopped; the result is unknown"));
  }

  void Give(absl::StatusOr<T> answer) {
    if (auto done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

 private:
  std::function<void(absl::StatusOr<T>)> done_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_PENDING_ANSWER_H_
