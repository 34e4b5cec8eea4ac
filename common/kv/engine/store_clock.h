// StoreClock: the time by which the platform decides. Pure: readings of the machine's clocks are
// arguments.
//
// Store time = a base + elapsed monotonic time, drawn towards the wall clock by at most 500 ppm. It
// always advances, also over restarts: the record that is written with every commit tells where it
// stood and at which monotonic reading of which boot. After a reboot the time that passed is
// unknown: store time goes on from the last record, and what the wall clock shows is a step.
//
// A wall clock that disagrees by more than a second has stepped. The step is followed once it has
// been the same for kStepStable and, if it is larger than kStepMax, there is evidence for it: the
// kernel says that its wall clock is synchronised, and no other connected machine's disagrees with
// it (host_clocks.h). An operator's confirmation replaces both.
//  - Ahead: until it is followed `hold()` is set. Then store time steps forward.
//  - Behind: until it is followed store time keeps its own pace, and nothing is held: whichever
//    clock is right, nothing fires twice, and nothing fires that would not have fired without the
//    step (docs/adr/0013). Then store time passes at half pace until the wall clock has caught up
//    (store_pace.h). It never goes back. Half pace is announced: it begins at `slow_from`, at
//    least `slow_lead` later, so that whoever acts by a lease knows of it by then.
//
// Threads: one at a time.

#ifndef COMMON_KV_ENGINE_STORE_CLOCK_H_
#define COMMON_KV_ENGINE_STORE_CLOCK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/engine/host_clocks.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

struct ClockReading {
  absl::Duration boottime;  // monotonic since boot, counting suspension
  absl::Time wall;
  bool synchronised = false;  // the kernel says that `wall` is
};

// What is kept on disk, in kClockKey: store time in µs(8), boottime in µs(8), flags(1: bit 0 =
// hold, bit 1 = slowed follows), slowed in µs(8, only with bit 1), boot id.
struct ClockRecord {
  absl::Time store_time;
  absl::Duration boottime;
  std::string boot_id;
  bool hold = false;
  absl::Duration slowed = absl::ZeroDuration();  // Pace::slowed
};
std::string EncodeClockRecord(const ClockRecord& record);
absl::StatusOr<ClockRecord> DecodeClockRecord(absl::string_view bytes);

class StoreClock {
 public:
  static constexpr double kSlewMax = 500e-6;
  static constexpr absl::Duration kFollowMax = absl::Seconds(1);
  // A step that is at most so large is followed without evidence…
  static constexpr absl::Duration kStepMax = absl::Minutes(10);
  // … once it has lasted so long, give or take kStepJitter and what a wall clock is slewed by.
  static constexpr absl::Duration kStepStable = absl::Seconds(5);
  static constexpr absl::Duration kStepJitter = absl::Milliseconds(100);
  static constexpr double kWallSlewMax = 1e-3;
  // Nothing is known of the wall clock between two readings that are further apart.
  static constexpr absl::Duration kReadingGapMax = absl::Seconds(2);
  static constexpr absl::Duration kSlowLeadMin = absl::Seconds(5);

  // `record` is what the last process wrote; nothing for a new store, whose time begins at the wall
  // clock's. `slow_lead`: the longest lease, at least kSlowLeadMin.
  StoreClock(std::optional<ClockRecord> record, std::string boot_id, const ClockReading& now,
             absl::Duration slow_lead = kSlowLeadMin);

  // Never less than before. `now.boottime` must not go back.
  absl::Time Now(const ClockReading& now);

  // What to write with a commit decided at this instant. Written at least every kRecordInterval
  // while the store runs.
  static constexpr absl::Duration kRecordInterval = absl::Seconds(10);
  ClockRecord Record(const ClockReading& now);

  // A client's machine has told its wall clock.
  void NoteHost(const HostClock& host, const ClockReading& now);

  // Wall clock less store time at the last reading.
  absl::Duration disagreement() const { return disagreement_; }
  // The wall clock is ahead, its step is not followed yet, and nobody has confirmed it.
  bool hold() const { return hold_; }
  // In whole microseconds, rounded up: who goes by it is not ahead.
  Pace pace() const { return {slow_from_, absl::Ceil(slowed_, absl::Microseconds(1))}; }
  // How long the hold has lasted at the last reading; zero without one.
  absl::Duration held_for() const {
    return hold_ ? last_.boottime - hold_since_ : absl::ZeroDuration();
  }
  // How often store time has stepped forward, by itself or confirmed. No lease may be taken over
  // for one TTL after a step: its holder counts elapsed time.
  uint64_t steps() const { return steps_; }

  // All of it, at the last reading.
  ClockState State() const;

  // The operator says that the wall clock is right. Nothing happens if it has not stepped.
  void Confirm(const ClockReading& now);

 private:
  void Advance(absl::Duration elapsed, absl::Time wall);
  // Notes since when the wall clock has gone as the monotonic clock does.
  void NoteStability(const ClockReading& now);
  // Whether the step, which has been seen since away_since_, is followed.
  bool Believed(const ClockReading& now) const;
  void StepTo(absl::Time wall);
  void EndStep();

  const std::string boot_id_;
  const absl::Duration slow_lead_;
  HostClocks hosts_;
  absl::Time store_time_;
  ClockReading last_;
  absl::Duration disagreement_;
  bool hold_ = false;
  absl::Duration hold_since_;  // of hold_, by boottime
  absl::Time slow_from_ = absl::InfiniteFuture();
  absl::Duration slowed_;  // Pace::slowed

  // The wall clock was `anchor_` once and has gone since then as the monotonic clock does; all of
  // that was read without a gap since stable_since_.
  ClockReading anchor_;
  absl::Duration stable_since_;
  std::optional<absl::Duration> away_since_;  // since when it has disagreed by more than kFollowMax
  // The step behind is followed, or was confirmed: it goes on while the wall clock stays the same.
  bool accepted_ = false;
  uint64_t steps_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_CLOCK_H_
