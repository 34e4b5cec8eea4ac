// One answer of a KvStore for which a test waits.
//
// Threads: any. The answer may come when the test no longer waits.

#ifndef TESTS_CONFORMANCE_RIGS_AWAITED_H_
#define TESTS_CONFORMANCE_RIGS_AWAITED_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

template <typename T>
class Awaited {
 public:
  KvStore::Callback<T> callback() {
    return [state = state_](absl::StatusOr<T> answer) {
      absl::MutexLock lock(&state->mu);
      state->answer = std::move(answer);
    };
  }

  // Returns DEADLINE_EXCEEDED after half a minute.
  absl::StatusOr<T> Wait() {
    absl::MutexLock lock(&state_->mu);
    auto here = [this] { return state_->answer.has_value(); };
    if (!state_->mu.AwaitWithTimeout(absl::Condition(&here), absl::Seconds(30)))
      return absl::DeadlineExceededError("no answer");
    return *std::move(state_->answer);
  }

 private:
  struct State {
    absl::Mutex mu;
    std::optional<absl::StatusOr<T>> answer;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_RIGS_AWAITED_H_
