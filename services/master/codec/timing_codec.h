// When a schedule fires, and what becomes of occurrences that are late or meet a run: public
// messages ↔ records, with full validation. Pure.

#ifndef SERVICES_MASTER_CODEC_TIMING_CODEC_H_
#define SERVICES_MASTER_CODEC_TIMING_CODEC_H_

#include <string>

#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/codec/definition.h"

namespace escapement::master {

// Fills cron, time_zone, timing, misfire, run_overlap and the timetable. Every field that is wrong
// is added to `violations` ("schedule.interval.every", "schedule.times[3]"); the timetable is made
// only if none is. Times are kept ascending; what equals the defaults is not kept, so that one wish
// has one record.
void ReadTiming(const v1::Schedule& schedule, Definition& definition, FieldViolations& violations);
// The same of a preview, with its own names of the fields.
void ReadTiming(const v1::PreviewScheduleRequest& request, Definition& definition,
                FieldViolations& violations);
TimingFields PreviewFields();

// The reverse. Policies are shown with their defaults filled in, dst_policy of cron expressions
// only.
void WriteTiming(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule);

// Whether a field of Schedule, by its name, says when it fires: of those exactly one may be set.
bool IsWhenField(const std::string& name);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_TIMING_CODEC_H_
