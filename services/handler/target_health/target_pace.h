// TargetPace: how many events may go to an endpoint that nothing is known of, or that has asked for
// a pause (429, or 503 with Retry-After). GrantPauses: the pauses of events with a token.

#ifndef SERVICES_HANDLER_TARGET_HEALTH_TARGET_PACE_H_
#define SERVICES_HANDLER_TARGET_HEALTH_TARGET_PACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement::handler {

// An endpoint that nothing is known of gets its whole room if it has not answered by then, counted
// from its first attempt: a slow endpoint makes events at most so late.
inline constexpr absl::Duration kFirstAnswerAwaited = absl::Milliseconds(250);
// A small start is over once so many events may be out.
inline constexpr uint64_t kSmallStartMax = 256;
// After a pause, one more event may go if the last one has no answer for so long.
inline constexpr absl::Duration kPauseProbeEvery = absl::Seconds(10);
// The ages of events do not shorten a pause below this.
inline constexpr absl::Duration kPauseCutMin = absl::Seconds(10);

// TargetPace: three states.
//
//   first   Nothing is known of the endpoint: it may have a few events out (first_max). Each answer
//           allows one more, so the number doubles with each round trip.
//   free    No limit.
//   paused  The endpoint has asked for a pause. Until its end no event goes out. Then one may be
//           out, and each answer that asks for no further pause allows one more.
//
// An endpoint that always asks for a pause of 30 s so gets first_max events at first, and then one
// in 30 s. If it does not answer, it gets one in kPauseProbeEvery.
//
// Only answers to attempts that were sent after the end of a pause say that it is over: others were
// in the air when the pause was asked for.
//
// Times are Clock::Elapsed. Pure.
class TargetPace {
 public:
  static constexpr uint64_t kAnyNumber = ~uint64_t{0};

  // `first_max`: the number of events at first. kAnyNumber: the endpoint is known to answer.
  explicit TargetPace(uint64_t first_max = kAnyNumber)
      : state_(first_max >= kSmallStartMax ? State::kFree : State::kFirst), out_max_(first_max) {}

  // How many more events may be claimed for the endpoint if `out` are claimed and not answered.
  uint64_t Allowed(uint64_t out, absl::Duration now) const;

  // Events are claimed for the endpoint.
  void OnReserved(absl::Duration now);
  void OnSent(absl::Duration now) {
    if (!first_sent_.has_value()) first_sent_ = now;
  }
  // The endpoint has answered the attempt that was sent at `sent`, and asked for no pause.
  void OnAnswered(absl::Duration sent);
  // The endpoint has asked that nothing be sent for `pause`. Never shortens a pause. True if a
  // pause begins.
  bool OnPauseAsked(absl::Duration pause, absl::Duration now);

  // Ends the pause at `at`, because an event grows too old then, but not before kPauseCutMin after
  // the endpoint last asked for it.
  void Cut(absl::Duration at);
  // Forgets what the endpoint has asked for.
  void Reset();

  bool IsPaused(absl::Duration now) const { return state_ == State::kPaused && now < until_; }
  absl::Duration until() const { return until_; }  // only while IsPaused
  // True from a pause until so many good answers that there is no limit.
  bool limited_by_pause() const { return state_ == State::kPaused; }
  // Since when events wait for pauses: the first one since the endpoint has answered an attempt
  // without asking for another, or since no event was waiting when a pause ended. nullopt: there is
  // none.
  std::optional<absl::Duration> paused_since() const { return paused_since_; }

 private:
  enum class State : uint8_t { kFirst, kFree, kPaused };
  State state_;
  uint64_t out_max_;
  std::optional<absl::Duration> first_sent_;
  std::optional<absl::Duration> paused_since_;
  absl::Duration until_;
  absl::Duration last_asked_;
  absl::Duration last_reserved_;
};

// Further pauses are not noted until others have ended.
inline constexpr size_t kGrantPausesMax = 4096;

// GrantPauses: the pauses asked for in answers to events with a token. They hold up the events of
// the same policy, key and target that the handler has been granted already. The token manager
// grants no further ones: it pauses the key, or the target, which these events are a part of.
//
// Times are Clock::Elapsed. Pure.
class GrantPauses {
 public:
  struct Name {
    const Uid& policy;
    absl::string_view key;
    absl::string_view target_key;
  };
  void Note(const Name& name, absl::Duration until, absl::Duration now);
  bool IsPaused(const Name& name, absl::Duration now) const;

 private:
  static std::string KeyOf(const Name& name);
  std::map<std::string, absl::Duration> until_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TARGET_HEALTH_TARGET_PACE_H_
