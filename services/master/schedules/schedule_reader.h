// Reads schedules for display.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct StoredSchedule {
  Uid uid;
  storage::v1::ScheduleRecord record;
  storage::v1::StateRecord state;
  Definition definition;              // its timetable ends at FinishOf(state)
  storage::v1::RunPartRecord counts;  // counts of all runs, if they are asked for
};

// With counts. NOT_FOUND if there is none.
void ReadSchedule(MasterContext& context, ScheduleName name,
                  absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done);

// The schedule whose runs are meant by the name, without counts. If there is none, the one that had
// the name and was deleted last, as long as it is kept. NOT_FOUND if there is none either.
void ReadScheduleOfRuns(MasterContext& context, ScheduleName name,
                        absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done);

// A row of `schedules`, without state and definition.
absl::StatusOr<StoredSchedule> ReadScheduleRecord(const std::string& bytes);

struct SchedulePage {
  std::vector<StoredSchedule> schedules;
  std::string next;  // schedule id at which the read ended early; empty: all are read
};
// Reads states, definitions and counts of schedules whose rows are known: in their order, without
// payloads, and about a page's bytes (page_budget.h). A schedule that is deleted during the read is
// left out.
void ReadScheduleDetails(MasterContext& context, std::vector<StoredSchedule> schedules,
                         absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_
