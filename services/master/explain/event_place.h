// FindEventPlace: where one event is, one-off or of a run: in a queue, held by somebody, ended, or
// not emitted yet.
//
// The places are read in the order in which events move, not in one snapshot. An event that moves
// during the reading may be missed everywhere; then everything is read once more. Events of a run
// are looked for where the present definition of their schedule puts them, and then also where
// former ones have put them (schedules/changes/row_places.h). At most kLookupRowsMax rows of each
// place are read.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EXPLAIN_EVENT_PLACE_H_
#define SERVICES_MASTER_EXPLAIN_EVENT_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {

struct EventPlace {
  enum class Kind : uint8_t {
    kUnknown,  // there is no such event
    kToEmit,   // its schedule has the occurrence, which is not emitted yet
    kLaunch,   // its occurrence waits for its launch
    kQueued,   // a row in `events`
    kWaiting,  // a row in `waiting`
    kParked,   // a row in `parked`, from either of them
    kClaimed,  // a handler has claimed it
    kHeld,     // it holds a token: `grant`
    kEnded,    // `done`
  };
  Kind kind = Kind::kUnknown;
  Uid uid;                 // that of the schedule or of the one-off event
  std::string occurrence;  // empty for one-off events
  uint64_t index = 0;      // in the run
  // Unless the event is unknown or has ended: its row, or that from which it was taken. For kToEmit
  // and kLaunch the row that it would have.
  storage::v1::EventRecord row;
  absl::Time due_time;  // when the event may go: the due time of its row, or its place in a window
  uint16_t partition = 0;  // the partition of the schedule
  uint16_t queue_shard = 0;
  uint16_t policy_shard = 0;                 // only with row.throttle()
  GrantId grant_id;                          // only for kHeld
  storage::v1::GrantRecord grant;            // only for kHeld; without holders
  storage::v1::GrantRecord::Holders holder;  // only for kHeld: that of the event
  storage::v1::DoneRecord done;              // only for kEnded
  uint64_t position = 0;  // only for kEnded: which event of the record's range it is
  // The run's record, if there is one.
  std::optional<storage::v1::RunRecord> run;
  // Only for events of runs.
  std::optional<StoredSchedule> schedule;
  // How the event is delivered; unset: not known any more.
  std::optional<storage::v1::DeliveryRecord> delivery;

  bool one_off() const { return occurrence.empty(); }
  bool throttled() const { return row.has_throttle(); }
};

// Event `index` of the run.
struct RunEventName {
  RunName run;
  uint64_t index = 0;
};
// tenants/*/schedules/*/runs/*/events/*; INVALID_ARGUMENT (`field`) for another form.
absl::StatusOr<RunEventName> ParseRunEventName(absl::string_view name, absl::string_view field);

using FoundPlace = absl::AnyInvocable<void(absl::StatusOr<EventPlace>)>;
void FindEventPlace(MasterContext& context, EventName name, FoundPlace done);
// NOT_FOUND if there is no such schedule.
void FindEventPlace(MasterContext& context, RunEventName name, FoundPlace done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EXPLAIN_EVENT_PLACE_H_
