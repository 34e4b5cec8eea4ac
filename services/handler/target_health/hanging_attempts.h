// HangingAttempts: which of a target's attempts under way hang, while it answers others well.
//
// An attempt hangs once it takes three times as long as good ones do, and at least a second. As
// many hanging attempts as have a good result within one timeout are free: they take no room, so
// that they do not keep it from events that would be answered.
//
// Times are Clock::Elapsed, or any other that does not step. Pure.

#ifndef SERVICES_HANDLER_TARGET_HEALTH_HANGING_ATTEMPTS_H_
#define SERVICES_HANDLER_TARGET_HEALTH_HANGING_ATTEMPTS_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace escapement::handler {

class HangingAttempts {
 public:
  void OnSent(uint64_t attempts, absl::Duration now);
  // `good`: the target answered it well.
  void OnEnded(absl::Duration sent, bool good, absl::Duration now);

  // How many attempts hang and are free, to a quarter of a second. `timeout`: of an attempt.
  uint64_t Free(absl::Duration timeout, absl::Duration now);
  // How many attempts were under way at once, on average, of those that had good results lately; as
  // of the last call of Free.
  double good_at_once() const { return good_at_once_; }
  std::optional<absl::Duration> last_good() const { return last_good_; }

 private:
  void Count(int64_t now_nanos);

  // Attempts under way: old ones, and younger ones by steps of time from begin_ on.
  uint64_t old_ = 0;
  std::deque<uint64_t> young_;
  int64_t begin_ = 0;

  std::optional<absl::Duration> last_good_;
  // Nanoseconds are numbers here, because absl::Duration is slow and this is done for each event.
  int64_t took_nanos_ = 0;  // how long good results take
  // Good results since counted_since_nanos_, and the time that they took together.
  uint64_t good_ = 0;
  double good_took_nanos_ = 0;
  int64_t counted_since_nanos_ = 0;
  double rate_ = 0;  // good results a second
  double good_at_once_ = 0;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_HANGING_ATTEMPTS_H_
