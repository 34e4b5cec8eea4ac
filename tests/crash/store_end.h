// StoreEnd: knows whether a store has ended its process. In a test the process goes on: the calls
// of the store and its callers hang for ever, on threads that never stop.
//
// Threads: all methods may be called from any.

#ifndef TESTS_CRASH_STORE_END_H_
#define TESTS_CRASH_STORE_END_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace escapement::crash {

class StoreEnd {
 public:
  // The RocksKvStore::Options::on_fatal of a store that ends here.
  static std::function<void(const absl::Status&)> OnFatal(std::shared_ptr<StoreEnd> end);

  // Runs `call` on a thread of its own. Returns when the call returns, or at once when the store
  // ends, with the reason. In the second case the thread stays behind; it owns all that `call`
  // holds. Data that the caller reads after that must have been written within UnlessEnded.
  static absl::Status Run(const std::shared_ptr<StoreEnd>& end, std::function<void()> call);

  // Runs `write` if the store has not ended; never returns if it has.
  void UnlessEnded(const std::function<void()>& write) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  [[noreturn]] void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  absl::Status fatal_ ABSL_GUARDED_BY(mu_);
  bool returned_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace escapement::crash

#endif  // TESTS_CRASH_STORE_END_H_
