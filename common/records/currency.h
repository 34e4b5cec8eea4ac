// Is a queue row of a schedule still what the schedule wants?
//
// Pure.

#ifndef COMMON_RECORDS_CURRENCY_H_
#define COMMON_RECORDS_CURRENCY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

enum class Currency : uint8_t {
  kSend,             // under the definition of the state's version
  kPark,             // the schedule's pause holds it up (HeldByPause)
  kDeleted,          // skip with reason "deleted"
  kSuperseded,       // skip with reason "superseded"
  kCancelled,        // its run is cancelled: end as that with the reason (CancelReason)
  kNeedsDefinition,  // ask again with `current_has`
};

// `state` null: there is none. `current_has`: does the definition of state->version() have the
// row's occurrence (HasOccurrence)? nullopt if that is not known yet. A row of that version itself
// is superseded only if it is beyond the end that max_runs make (FinishOf).
Currency JudgeRow(const storage::v1::EventRecord& row, absl::string_view occurrence,
                  const storage::v1::StateRecord* state, std::optional<bool> current_has);

// The schedule is paused, and the row is not of a run that was triggered or backfilled since the
// pause began: that was the user's explicit wish.
bool HeldByPause(const storage::v1::EventRecord& row, const storage::v1::StateRecord& state);

// Has CancelRun cancelled the run of this occurrence?
bool CancelledByUser(absl::string_view occurrence, const storage::v1::StateRecord& state);

// Why the row's run is cancelled: kCancelledByUser (CancelRun, also of a run that was triggered),
// or kOverlap (a later run took its place: StateRecord.cancelled_before_micros). nullopt: it is
// not.
inline constexpr absl::string_view kCancelledByUser = "cancelled";
inline constexpr absl::string_view kOverlap = "overlap";
std::optional<absl::string_view> CancelReason(const storage::v1::EventRecord& row,
                                              absl::string_view occurrence,
                                              const storage::v1::StateRecord& state);

// Does the timetable have an occurrence of this identity at this instant, and before `finish`
// (FinishOf)? Null: it cannot be read, and has none.
bool HasOccurrence(const cron::Timetable* timetable, absl::string_view occurrence,
                   int64_t nominal_micros, absl::Time finish = absl::InfiniteFuture());

}  // namespace escapement

#endif  // COMMON_RECORDS_CURRENCY_H_
