// Judges whether a queue row still is what its schedule wants.
//
// Pure. The judgement that also finds state and definition is in row_judge.h.

#ifndef COMMON_RECORDS_CURRENCY_H_
#define COMMON_RECORDS_CURRENCY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// Reasons with which rows are skipped or cancelled.
inline constexpr absl::string_view kScheduleDeleted = "deleted";
inline constexpr absl::string_view kSuperseded = "superseded";  // the schedule has changed
inline constexpr absl::string_view kCancelledByUser = "cancelled";
inline constexpr absl::string_view kOverlap = "overlap";  // a later run took the run's place

struct RowVerdict {
  enum class Action : uint8_t {
    kSend,
    kFetch,  // a record that the judgement needs is not known yet
    kPark,   // the schedule is paused
    kSkip,   // end the row with `outcome`, for `reason`
    kDrop,   // delete the row without an outcome: another row stands for its events
    kMove,   // the row waits under the wrong policy or priority
  };
  Action action = Action::kSend;
  // Only for kSkip.
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SKIPPED;
  absl::string_view reason = {};  // one of the constants above

  bool superseded() const { return action == Action::kSkip && reason == kSuperseded; }
};

// Never returns kDrop or kMove. `state` is null if the schedule has none. `current_has` says
// whether the definition of state->version() has the row's occurrence (HasOccurrence). If it is
// nullopt (not known yet) and needed, the verdict is kFetch. A row of that version itself is
// superseded only at or after the finish that max_runs sets (FinishOf).
RowVerdict JudgeRow(const storage::v1::EventRecord& row, absl::string_view occurrence,
                    const storage::v1::StateRecord* state, std::optional<bool> current_has);

// True if the schedule is paused, unless the row's run was triggered or backfilled since the pause
// began: the user wants that run in spite of the pause.
bool HeldByPause(const storage::v1::EventRecord& row, const storage::v1::StateRecord& state);

// True if CancelRun has cancelled the run of this occurrence.
bool CancelledByUser(absl::string_view occurrence, const storage::v1::StateRecord& state);

// Why the row's run is cancelled: kCancelledByUser (CancelRun, also for a triggered run) or
// kOverlap (StateRecord.cancelled_before_micros). nullopt: the run is not cancelled.
std::optional<absl::string_view> CancelReason(const storage::v1::EventRecord& row,
                                              absl::string_view occurrence,
                                              const storage::v1::StateRecord& state);

// True if the timetable has an occurrence of this identity at this instant, before `finish`
// (FinishOf). A null timetable (its definition cannot be read) has no occurrence.
bool HasOccurrence(const cron::Timetable* timetable, absl::string_view occurrence,
                   int64_t nominal_micros, absl::Time finish = absl::InfiniteFuture());

}  // namespace escapement

#endif  // COMMON_RECORDS_CURRENCY_H_
