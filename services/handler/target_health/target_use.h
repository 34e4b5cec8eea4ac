// The health of an endpoint: CircuitBreaker stops the sending to it while it is down, TargetUse
// counts its attempts, and TargetRowOf makes its record.

#ifndef SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_
#define SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/statistics/minute_sums.h"
#include "escapement/storage/v1/target_records.pb.h"

namespace escapement::handler {

inline constexpr size_t kBreakerResultsMin = 20;
inline constexpr absl::Duration kBreakerWindow = absl::Seconds(10);
inline constexpr absl::Duration kBreakerOpenMin = absl::Seconds(1);
inline constexpr absl::Duration kBreakerOpenMax = absl::Seconds(60);

// CircuitBreaker: stops the sending to one endpoint while it is down.
//
//   closed     Events go out. The breaker opens when at least kBreakerResultsMin results came
//              within kBreakerWindow and none of them was good.
//   open       No event goes out, at first for kBreakerOpenMin, then twice as long each time, up to
//              kBreakerOpenMax.
//   half open  One event goes out as a probe. If its result is good, the breaker closes. If it is
//              bad, the breaker opens again. If the probe ends without a result, another one may
//              go.
//
// Events that were reserved before the probe may still wait to be sent. If such an event is sent
// while the breaker is half open, its result counts as the probe's. If it is unreserved, that says
// nothing about the probe. Reservations have no names here, so unreserved events count as the
// others first, and as the probe last.
//
// In every state a good result closes the breaker. Results of attempts that were sent before the
// breaker was half open never open it again.
//
// Times are Clock::Elapsed. Pure.
class CircuitBreaker {
 public:
  enum class State : uint8_t { kClosed, kOpen, kHalfOpen };
  static constexpr uint64_t kAnyNumber = ~uint64_t{0};

  State state(absl::Duration now) const;

  // How many more events may be claimed for the endpoint: any number, none, or one probe.
  uint64_t Allowed(absl::Duration now) const;

  // Events are claimed for the endpoint. If it is half open, they are the probe. `unsent`: how many
  // events were reserved for it before and are neither sent nor unreserved.
  void OnReserved(uint64_t events, uint64_t unsent, absl::Duration now);
  // Reserved events are not sent. Once more of them are unreserved than wait beside the probe,
  // another probe may go.
  void OnUnreserved(uint64_t events);

  // The attempt that was sent at `sent` says nothing about the endpoint. If it was the probe,
  // another one may go.
  void OnNoResult(absl::Duration sent);

  // The result of an attempt that was sent at `sent`. Returns true if the breaker has opened.
  bool OnResult(bool good, absl::Duration sent, absl::Duration now);

  // Closes the breaker as a good result does.
  void Close();

  // When the endpoint went down: the first opening since the breaker was closed. nullopt: closed.
  std::optional<absl::Duration> down_since() const { return down_since_; }
  // When the next probe may go. Only if not closed.
  absl::Duration open_until() const { return open_until_; }

 private:
  bool OpenFor(absl::Duration time, absl::Duration now);

  // The times of the last bad results, at most kBreakerResultsMin. The oldest is at `oldest_bad_`
  // if the vector is full, else at 0.
  std::vector<absl::Duration> bad_;
  size_t oldest_bad_ = 0;
  std::optional<absl::Duration> last_good_;
  std::optional<absl::Duration> down_since_;
  absl::Duration open_for_;    // how long it was opened last
  absl::Duration open_until_;  // from then on it is half open
  bool probe_out_ = false;
  // Only if probe_out_: events that were unsent when the probe was reserved, or were reserved after
  // it, less those that were unreserved since.
  uint64_t beside_probe_ = 0;
};

inline constexpr size_t kUseErrorBytesMax = 256;

inline constexpr int64_t kLateMicros = 1'000'000;  // Statistics.late_count

// TargetUse: how one tenant uses one endpoint: attempts under way, attempts and failures of the
// last half to whole minute, and the last error. Also counts attempts for statistics.
//
// Times are Clock::Elapsed. Pure.
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

  // From now on attempts count for these subjects: the target and the tenant.
  void CountFor(MinuteSums::SubjectPtr target, MinuteSums::SubjectPtr tenant) {
    subjects_ = {std::move(target), std::move(tenant)};
  }
  // Attempts that have ended. The first attempts of events among them were due in one minute, and
  // left in one minute. Times are store time.
  struct Attempts {
    uint64_t ended = 0;
    uint64_t errors = 0;  // attempts that were not accepted
    uint64_t first = 0;   // first attempts of events
    uint64_t late = 0;    // first attempts that left more than kLateMicros after they were due
    int64_t lateness_max_micros = 0;
    int64_t due_micros = 0;   // when a first attempt was due
    int64_t sent_micros = 0;  // when a first attempt left
  };
  // Counts attempts that ended at `now_micros`.
  void Count(const Attempts& attempts, int64_t now_micros) const;

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
  std::array<MinuteSums::SubjectPtr, 2> subjects_;  // the target's and the tenant's; null: none
};

// TargetRowOf: the record of a target in `target_states`.
//
// Pure.

struct TargetRowInput {
  const std::string& target_key;
  const CircuitBreaker& breaker;
  const TargetUse& use;
  uint64_t in_flight_max = 0;
  std::optional<absl::Duration> paused_until = std::nullopt;  // nullopt: it is not paused
  absl::Time now;                                             // store time
  absl::Duration elapsed;                                     // Clock::Elapsed at `now`
};

storage::v1::TargetRowRecord TargetRowOf(const TargetRowInput& input);

// The target's key without user information and queries. Master checks refuse both where they could
// be secret; this keeps them out of lists in any case.
std::string ShownTargetKey(absl::string_view target_key);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_TARGET_USE_H_
