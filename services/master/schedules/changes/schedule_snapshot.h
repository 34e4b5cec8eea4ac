// The stored state of one schedule, as a change reads it. Plain values.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_SNAPSHOT_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_SNAPSHOT_H_

#include <optional>
#include <string>
#include <vector>

#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/schedules/changes/parked_row.h"

namespace escapement::master {

struct ScheduleSnapshot {
  // The schedule's uid, or a new one if there is no schedule.
  Uid uid;
  // Unset if there is no such schedule. `state` and `definition` are set with it.
  std::optional<storage::v1::ScheduleRecord> record;
  storage::v1::StateRecord state;
  std::string state_bytes;
  std::optional<Definition> definition;  // its timetable ends at FinishOf(state)

  // Checkpoints of the uid's partition, as stored.
  std::optional<std::string> planned_to;
  std::optional<std::string> emitted_to;
  bool cursor_present = false;  // an emitter has committed a part of a window

  // The policies that the decision names. Empty in a first decision, which finds out their names.
  Policies policies;
  // The calendar that the decision names, with all that it contains. Unset in a first decision.
  std::optional<Calendars> calendars;

  // Rows that wait in `parked`; read only for resume and delete of a paused schedule.
  std::vector<ParkedRow> parked;
  bool parked_more = false;  // than one commit takes
  // The masters' parts of the runs of `parked`, by their key.
  StoredRunParts run_parts;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_SNAPSHOT_H_
