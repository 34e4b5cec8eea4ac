// StoreClock: the time by which the platform decides. Pure: readings of the machine's clocks are
// arguments.
//
// Store time = a base + elapsed monotonic time, drawn towards the wall clock by at most 500 ppm. It
// always advances, also over restarts: the record that is written with every commit tells where it
// stood and at which monotonic reading of which boot. After a reboot the time that passed is
// unknown and the wall clock is asked, but the time never starts below the last record.
//
// A wall clock that disagrees by more than a second has stepped.
//  - Ahead: `hold()` is set. Store time steps forward to the wall clock once the step is at most
//    kStepMax and has been the same for kStepStable (a virtual machine that stood still, a
//    correction by NTP), or once an operator confirms. The hold also ends if the wall clock comes
//    back by itself.
//  - Behind: store time keeps its own pace until an operator confirms. Then it is drawn back by 500
//    ppm; it never goes back.
//
// Threads: one at a time.

#ifndef COMMON_KV_STORE_CLOCK_H_
#define COMMON_KV_STORE_CLOCK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::kv {

struct ClockReading {
  absl::Duration boottime;  // monotonic since boot, counting suspension
  absl::Time wall;
};

// What is kept on disk, in kClockKey: store time in µs(8), boottime in µs(8), flags(1: bit 0 =
// hold), boot id.
struct ClockRecord {
  absl::Time store_time;
  absl::Duration boottime;
  std::string boot_id;
  bool hold = false;
};
std::string EncodeClockRecord(const ClockRecord& record);
absl::StatusOr<ClockRecord> DecodeClockRecord(absl::string_view bytes);

class StoreClock {
 public:
  static constexpr double kSlewMax = 500e-6;
  static constexpr absl::Duration kFollowMax = absl::Seconds(1);
  // A step forward that is at most so large is followed without an operator…
  static constexpr absl::Duration kStepMax = absl::Minutes(10);
  // … once it has lasted so long, give or take kStepJitter.
  static constexpr absl::Duration kStepStable = absl::Seconds(5);
  static constexpr absl::Duration kStepJitter = absl::Milliseconds(100);
  // After a reboot a wall clock further ahead of the last record than this is not believed.
  static constexpr absl::Duration kDowntimeMax = absl::Hours(24 * 30);

  // `record` is what the last process wrote; nothing for a new store, whose time begins at the wall
  // clock's.
  StoreClock(std::optional<ClockRecord> record, std::string boot_id, const ClockReading& now);

  // Never less than before. `now.boottime` must not go back.
  absl::Time Now(const ClockReading& now);

  // What to write with a commit decided at this instant. Written at least every kRecordInterval
  // while the store runs.
  static constexpr absl::Duration kRecordInterval = absl::Seconds(10);
  ClockRecord Record(const ClockReading& now);

  // Wall clock less store time at the last reading.
  absl::Duration disagreement() const { return disagreement_; }
  // The wall clock is ahead by more than is followed and nobody has confirmed it.
  bool hold() const { return hold_; }
  // How long the hold has lasted at the last reading; zero without one.
  absl::Duration held_for() const { return hold_ ? boottime_ - hold_since_ : absl::ZeroDuration(); }
  // How often store time has stepped forward, by itself or confirmed. No lease may be taken over
  // for one TTL after a step: its holder counts elapsed time.
  uint64_t steps() const { return steps_; }

  // The operator says that the wall clock is right.
  void Confirm(const ClockReading& now);

 private:
  // The wall clock has been ahead by the same for kStepStable.
  bool StepIsStable();
  void StepTo(absl::Time wall);

  const std::string boot_id_;
  absl::Time store_time_;
  absl::Duration boottime_;
  absl::Duration disagreement_;
  bool hold_ = false;
  absl::Duration hold_since_;  // of hold_, by boottime_
  // Since when the wall clock has been ahead by `step_`, by boottime_.
  std::optional<absl::Duration> step_since_;
  absl::Duration step_;
  uint64_t steps_ = 0;
  bool draw_back_ = false;  // confirmed while ahead of the wall clock
};

}  // namespace escapement::kv

#endif  // COMMON_KV_STORE_CLOCK_H_
