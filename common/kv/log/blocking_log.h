// BlockingLog: calls of a SharedLog that wait for their answers, for long work on a thread of its
// own. Cancel() ends all waits.
//
// Threads: any.

#ifndef COMMON_KV_LOG_BLOCKING_LOG_H_
#define COMMON_KV_LOG_BLOCKING_LOG_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class BlockingLog {
 public:
  // `log` must outlive it.
  explicit BlockingLog(SharedLog& log) : log_(log) {}

  SharedLog& log() { return log_; }

  // From now on all calls of Wait return CANCELLED.
  void Cancel() {
    absl::MutexLock lock(&state_->mu);
    state_->cancelled = true;
  }

  // Starts `count` calls, call(i, done), and waits until all are answered. Returns the answers in
  // the order of i.
  template <typename T>
  absl::StatusOr<std::vector<T>> WaitForAll(
      size_t count, const std::function<void(size_t, std::function<void(T)>)>& call) {
    struct Answers {
      std::vector<std::optional<T>> all;
      size_t missing;
    };
    auto answers = std::make_shared<Answers>();
    answers->all.resize(count);
    answers->missing = count;
    for (size_t i = 0; i < count; ++i) {
      call(i, [state = state_, answers, i](T answer) {
        absl::MutexLock lock(&state->mu);
        answers->all[i] = std::move(answer);
        --answers->missing;
      });
    }
    absl::MutexLock lock(&state_->mu);
    auto ready = [&] { return state_->cancelled || answers->missing == 0; };
    state_->mu.Await(absl::Condition(&ready));
    if (answers->missing > 0) return absl::CancelledError("the store stops");
    std::vector<T> all;
    for (std::optional<T>& answer : answers->all) all.push_back(*std::move(answer));
    return all;
  }

  // One call: call(done).
  template <typename T>
  absl::StatusOr<T> Wait(const std::function<void(std::function<void(absl::StatusOr<T>)>)>& call) {
    ASSIGN_OR_RETURN(auto answers,
                     WaitForAll<absl::StatusOr<T>>(
                         1, [&call](size_t, std::function<void(absl::StatusOr<T>)> done) {
                           call(std::move(done));
                         }));
    return std::move(answers.front());
  }

 private:
  struct State {
    absl::Mutex mu;
    bool cancelled = false;
  };
  SharedLog& log_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_BLOCKING_LOG_H_
