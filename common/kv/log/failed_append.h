// FailedAppend: remembers why an append failed, for the appends that were sent behind it.
//
// Those find another end of the log than they expect, because the rows before theirs are missing.
// They fail for the same cause as the first.
//
// Threads: one at a time.

#ifndef COMMON_KV_LOG_FAILED_APPEND_H_
#define COMMON_KV_LOG_FAILED_APPEND_H_

#include <optional>

#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class FailedAppend {
 public:
  // Takes the results of one log's appends in the order of their calls, and returns what to answer.
  AppendResult Explain(const AppendRequest& request, AppendResult result) {
    using Outcome = AppendResult::Outcome;
    if (result.outcome == Outcome::kConflict && failed_.has_value() && end_ == request.after)
      result = *failed_;
    if (result.outcome == Outcome::kAcknowledged || result.outcome == Outcome::kPresent) {
      failed_.reset();
    } else if (!request.rows.empty()) {
      failed_ = result;
      end_ = request.rows.back().position;
    }
    return result;
  }

 private:
  std::optional<AppendResult> failed_;  // the last append's, if it failed
  LogPosition end_;                     // where that append would have ended
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_FAILED_APPEND_H_
