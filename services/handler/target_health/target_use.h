// TargetUse: how one tenant uses one endpoint: attempts under way, attempts and failures of the
// last half to whole minute, and the last error.
//
// Times are Clock::Elapsed. Pure.

#ifndef SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_
#define SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "services/handler/target_health/circuit_breaker.h"

namespace escapement::handler {

inline constexpr size_t kUseErrorBytesMax = 256;

class TargetUse {
 public:
  struct Counts {
    uint64_t attempts = 0;
    uint64_t failures = 0;  // failed attempts among them
    absl::Duration measured;
  };

  explicit TargetUse(absl::Duration now)
      : last_used_(now), before_{.begin = now}, now_counted_{.begin = now} {}

  void OnSent(uint64_t attempts, absl::Duration now);
  // An attempt ended, and it was an attempt: the event was sent.
  void OnSucceeded(absl::Duration now);
  void OnFailed(absl::string_view error, absl::Duration now);
  // An attempt ended although its event was not sent.
  void OnUnsent();

  uint64_t in_flight() const { return in_flight_; }
  // The attempts that ended in the last 30 to 60 seconds, or since the first one.
  Counts CountsAt(absl::Duration now) const;
  // Clean text, at most kUseErrorBytesMax bytes. Empty if no attempt has failed.
  std::string LastError() const;
  absl::Duration last_error_at() const { return last_error_at_; }
  // When an attempt last began, or ended with a result.
  absl::Duration last_used() const { return last_used_; }

 private:
  struct Half {
    absl::Duration begin;
    uint64_t attempts = 0;
    uint64_t failures = 0;
  };
  // The half that counts now. Begins a new one if it is over.
  Half& NowCounted(absl::Duration now);

  uint64_t in_flight_ = 0;
  absl::Duration last_used_;
  Half before_;  // ends where the other begins
  Half now_counted_;
  std::string last_error_;
  absl::Duration last_error_at_;
};

// TargetRowOf: the record of a target in `target_states`.
//
// Pure.

struct TargetRowInput {
  const std::string& target_key;
  const CircuitBreaker& breaker;
  const TargetUse& use;
  uint64_t in_flight_max = 0;
  absl::Time now;          // store time
  absl::Duration elapsed;  // Clock::Elapsed at `now`
};

storage::v1::TargetRowRecord TargetRowOf(const TargetRowInput& input);

// The target's key without user information and queries. Master checks refuse both where they could
// be secret; this keeps them out of lists in any case.
std::string ShownTargetKey(absl::string_view target_key);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_
