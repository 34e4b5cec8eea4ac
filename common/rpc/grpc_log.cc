#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/log.h"

namespace escapement {
namespace {

constexpr int kLinesPerSecond = 10;

// Decides which lines are written.
class Budget {
 public:
  // True if a line may be written; then `left_out` is the number of lines before it that were not.
  bool Take(int* left_out) {
    const absl::Duration now =
        absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
    absl::MutexLock lock(&mutex_);
    if (now - second_began_ >= absl::Seconds(1)) {
      second_began_ = now;
      written_ = 0;
    }
    if (written_ == kLinesPerSecond) {
      ++left_out_;
      return false;
    }
    ++written_;
    *left_out = left_out_;
    left_out_ = 0;
    return true;
  }

 private:
  absl::Mutex mutex_;
  absl::Duration second_began_ ABSL_GUARDED_BY(mutex_);
  int written_ ABSL_GUARDED_BY(mutex_) = 0;
  int left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

void WriteLine(gpr_log_func_args* line) {
  static Budget* const budget = new Budget;  // gRPC's threads may outlive everything
  int left_out = 0;
  if (!budget->Take(&left_out)) return;
  Log(line->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug, "grpc",
      "gRPC says",
      {{"line", line->message},
       {"at", absl::StrCat(line->file, ":", line->line)},
       {"left_out_before", left_out}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace escapement
