// StoreClock: the time by which the platform decides. Pure: readings of the machine's clocks are
// arguments.
//
// Store time = a base + elapsed monotonic time, drawn towards the wall clock by at most 500 ppm. It
// always advances, also over restarts: the record that is written with every commit tells where it
// stood and at which monotonic reading of which boot. After a reboot the time that passed is
// unknown and the wall clock is asked, but the time never starts below the last record.
//
// A wall clock that disagrees by more than a second is not followed. If it is ahead, `hold()` is
// set until an operator confirms (then store time steps forward to it) or it comes back by itself;
// if it is behind, store time keeps its own pace until an operator confirms (then it is drawn back
// by 500 ppm; it never goes back).
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

  // The operator says that the wall clock is right.
  void Confirm(const ClockReading& now);

 private:
  const std::string boot_id_;
  absl::Time store_time_;
  absl::Duration boottime_;
  absl::Duration disagreement_;
  bool hold_ = false;
  bool draw_back_ = false;  // confirmed while ahead of the wall clock
};

}  // namespace escapement::kv

#endif  // COMMON_KV_STORE_CLOCK_H_
