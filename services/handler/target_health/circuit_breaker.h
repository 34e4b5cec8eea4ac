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

#ifndef SERVICES_HANDLER_TARGET_HEALTH_CIRCUIT_BREAKER_H_
#define SERVICES_HANDLER_TARGET_HEALTH_CIRCUIT_BREAKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace escapement::handler {

inline constexpr size_t kBreakerResultsMin = 20;
inline constexpr absl::Duration kBreakerWindow = absl::Seconds(10);
inline constexpr absl::Duration kBreakerOpenMin = absl::Seconds(1);
inline constexpr absl::Duration kBreakerOpenMax = absl::Seconds(60);

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

  // When the endpoint went down: the first opening since the breaker was closed. nullopt: closed.
  std::optional<absl::Duration> down_since() const { return down_since_; }
  // When the next probe may go. Only if not closed.
  absl::Duration open_until() const { return open_until_; }

 private:
  bool OpenFor(absl::Duration time, absl::Duration now);
  void Close();

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

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_CIRCUIT_BREAKER_H_
