// StoreClock: the clock by which the platform decides. HostClocks: the wall clocks of other
// machines, as evidence for or against a step of its own wall clock. ClockHold: what processes
// report about a hold of the clock.

#ifndef COMMON_KV_ENGINE_STORE_CLOCK_H_
#define COMMON_KV_ENGINE_STORE_CLOCK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

// HostClocks: the wall clocks of other machines, as their clients reported them lately. They are
// evidence for or against a step of the store's own wall clock.
//
// The boot id identifies a machine. Reports from the store's own machine are ignored, because its
// clients read the clock in question. A report counts as read when it arrives. So a report that was
// delayed makes its machine seem behind until the next report.
//
// Pure. Threads: one at a time.
class HostClocks {
 public:
  // A machine counts as connected for this long after its last report; clients report once a
  // second.
  static constexpr absl::Duration kConnectedFor = absl::Seconds(10);
  // Two wall clocks disagree if they differ by more than this.
  static constexpr absl::Duration kAgreeMax = absl::Seconds(1);
  // Reports of further machines are ignored.
  static constexpr size_t kHostsMax = 1024;

  explicit HostClocks(std::string own_boot_id) : own_boot_id_(std::move(own_boot_id)) {}

  // `boottime` is the store's monotonic clock at the arrival of the report.
  void Note(const HostClock& host, absl::Duration boottime);

  struct Count {
    uint32_t connected = 0;
    uint32_t disagree = 0;
  };
  // Counts the machines that are connected at `boottime`, and those that disagree with `time`.
  Count CountAt(absl::Duration boottime, absl::Time time) const;

 private:
  struct Report {
    absl::Time wall;
    absl::Duration boottime;
  };

  const std::string own_boot_id_;
  std::map<std::string, Report> reports_;  // by boot id
};

struct ClockReading {
  absl::Duration boottime;  // monotonic time since boot, including suspension
  absl::Time wall;
  bool synchronised = false;  // the kernel says that `wall` is synchronised
};

// The value of kClockKey: store time in µs(8), boottime in µs(8), flags(1: bit 0 = hold, bit 1 =
// slowed follows), slowed in µs(8, only with bit 1), boot id.
struct ClockRecord {
  absl::Time store_time;
  absl::Duration boottime;
  std::string boot_id;
  bool hold = false;
  absl::Duration slowed = absl::ZeroDuration();  // Pace::slowed
};
std::string EncodeClockRecord(const ClockRecord& record);
absl::StatusOr<ClockRecord> DecodeClockRecord(absl::string_view bytes);

// StoreClock: the clock by which the platform decides. It is pure: readings of the machine's clocks
// are arguments.
//
// Store time = a base + elapsed monotonic time, slewed towards the wall clock by at most 500 ppm.
// It always advances, also over restarts: every commit writes a record of the store time, and of
// the monotonic reading and boot it belongs to. After a reboot the elapsed time is unknown. Store
// time then goes on from the last record, and a difference to the wall clock counts as a step.
//
// A wall clock that disagrees with store time by more than a second has stepped. The store follows
// the step once it has been the same for kStepStable. A step larger than kStepMax also needs
// evidence: the kernel says that its wall clock is synchronised, and no other connected machine
// disagrees with it (HostClocks). A confirmation by an operator replaces both. A step is denied
// while at least two other machines are connected, and most of them agree with store time and not
// with the wall clock. Then the store does not follow it, and does not hold emission, until a
// machine agrees with the wall clock, or an operator does.
// - Wall clock ahead: `hold()` is set until the step is followed. Then store time steps forward.
// - Wall clock behind: store time keeps its own pace until the step is followed, and nothing is
//   held. Whichever clock is right, nothing fires twice, and nothing fires that would not have
//   fired without the step (docs/adr/0013). Once the step is followed, store time passes at half
//   pace until the wall clock has caught up (store_pace.h). Store time never goes back. Half pace
//   is announced: it begins at `slow_from`, at least `slow_lead` later, so that all lease holders
//   know of it by then.
//
// A replica that takes over on another machine knows how old the last record is at least, because
// the other one wrote a record with each batch and lost the right to answer before. So store time
// goes on from there, not from an interval later. If the wall clock is ahead by no more than
// kFollowMax, store time begins at the wall clock, because the real age of the record is not known
// exactly.
//
// Clients count store time on through an outage of the store, by their monotonic clocks and from an
// answer of the last process (KvClient::NowLow). If the age of the record is not known, store time
// goes forward to where they are, so that no client is ahead of the store. See AdvanceTo.
//
// Threads: one at a time.
class StoreClock {
 public:
  static constexpr double kSlewMax = 500e-6;
  static constexpr absl::Duration kFollowMax = absl::Seconds(1);
  // A step of at most this size needs no evidence.
  static constexpr absl::Duration kStepMax = absl::Minutes(10);
  // A step is followed once it has lasted this long, apart from kStepJitter and the slewing of the
  // wall clock.
  static constexpr absl::Duration kStepStable = absl::Seconds(5);
  static constexpr absl::Duration kStepJitter = absl::Milliseconds(100);
  static constexpr double kWallSlewMax = 1e-3;
  // If two readings are further apart, the wall clock between them counts as unknown.
  static constexpr absl::Duration kReadingGapMax = absl::Seconds(2);
  static constexpr absl::Duration kSlowLeadMin = absl::Seconds(5);

  // `record` is the record of the last process. A new store has none, and its time begins at the
  // wall clock's. `slow_lead`: the longest lease, at least kSlowLeadMin.
  // `age` is for a replica that takes over: it has known the record for at least this long, and the
  // process before it gave out no time later than the record's + `age`.
  StoreClock(std::optional<ClockRecord> record, std::string boot_id, const ClockReading& now,
             absl::Duration slow_lead = kSlowLeadMin,
             std::optional<absl::Duration> age = std::nullopt);

  // Returns the store time, which never goes back. `now.boottime` must not go back.
  absl::Time Now(const ClockReading& now);

  // The record to write with a commit decided at this instant. While the store runs, it writes a
  // record at least every kRecordInterval.
  static constexpr absl::Duration kRecordInterval = absl::Seconds(10);
  ClockRecord Record(const ClockReading& now);

  // For a record of unknown age, from another machine or before a reboot: a client counts store
  // time on from an answer of the process before, and has reached `now_low`. If that is ahead,
  // store time goes forward to it. True if it did: then write a record before the time is given
  // out. Only in the first kClientsCountFor of this process and up to kStepMax ahead of its begin,
  // so that a client whose clock is wrong cannot move store time further.
  bool AdvanceTo(absl::Time now_low, const ClockReading& now);
  static constexpr absl::Duration kClientsCountFor = absl::Minutes(1);

  // Notes a report of a client's machine about its wall clock.
  void NoteHost(const HostClock& host, const ClockReading& now);

  // Wall clock minus store time at the last reading.
  absl::Duration disagreement() const { return disagreement_; }
  // True while the wall clock is ahead by a step that is neither followed nor confirmed.
  bool hold() const { return hold_; }
  // `slowed` is rounded up to whole microseconds, so that a client's store time is never ahead.
  Pace pace() const { return {slow_from_, absl::Ceil(slowed_, absl::Microseconds(1))}; }
  // How long the hold had lasted at the last reading; zero without a hold.
  absl::Duration held_for() const {
    return hold_ ? last_.boottime - hold_since_ : absl::ZeroDuration();
  }
  // How often store time has stepped forward, by itself or after a confirmation. No lease may be
  // taken over for one TTL after a step, because its holder counts elapsed time.
  uint64_t steps() const { return steps_; }

  // The state at the last reading.
  ClockState State() const;

  // An operator confirms the wall clock. Does nothing if the wall clock has not stepped.
  void Confirm(const ClockReading& now);

 private:
  void Advance(absl::Duration elapsed, absl::Time wall);
  // Notes since when the wall clock has advanced like the monotonic clock.
  void NoteStability(const ClockReading& now);
  // True if the store follows the step that it has seen since away_since_.
  bool Believed(const ClockReading& now) const;
  // True if other machines show that store time is right and the wall clock is wrong.
  bool Denied(const ClockReading& now) const;
  void StepTo(absl::Time wall);
  void EndStep();

  const std::string boot_id_;
  const absl::Duration slow_lead_;
  HostClocks hosts_;
  absl::Time store_time_;
  ClockReading last_;
  absl::Duration disagreement_;
  bool hold_ = false;
  absl::Duration hold_since_;  // boottime at which hold_ was set
  absl::Time slow_from_ = absl::InfiniteFuture();
  absl::Duration slowed_;  // Pace::slowed

  // The wall clock read `anchor_` and has advanced like the monotonic clock since then. Since
  // stable_since_ it was read without a gap.
  ClockReading anchor_;
  absl::Duration stable_since_;
  std::optional<absl::Duration> away_since_;  // since when the clocks have disagreed by more than
                                              // kFollowMax
  // The step back is followed or was confirmed. That stays true until the wall clock steps again.
  bool accepted_ = false;
  bool denied_ = false;  // the step was denied
  uint64_t steps_ = 0;
  // Bounds of AdvanceTo. InfinitePast: the age of the record is known.
  absl::Duration clients_count_until_;  // boottime
  absl::Time clients_count_to_ = absl::InfinitePast();
};

// ClockHold: what every process reports about a hold of the store's clock.
//
// Pure.
struct ClockHold {
  absl::Duration lasted;        // since emission was held
  absl::Duration disagreement;  // wall clock minus store time; negative: the wall clock is behind
};

// A process is not ready during the rest of a longer hold. If the wall clock has stepped by
// minutes, store time follows it after half of this time (StoreClock::kStepStable), so such a step
// alone does not make a process unready.
inline constexpr absl::Duration kClockHoldReadyMax = absl::Seconds(10);

// The reason for /readyz why a process is not ready: "clock: held for 12 s, wall clock 2 h ahead".
// Empty while the hold is not longer than kClockHoldReadyMax.
std::string NotReadyReason(const ClockHold& hold);

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_CLOCK_H_
