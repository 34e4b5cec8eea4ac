// One version of a schedule with what is derived from it. Pure.
//
// How a definition comes to be: DraftOf (schedule_codec.h) → FillAnchor, with the time of the
// schedule's creation, of its first version as of every later one → CheckFires, and of a new
// schedule CheckFiresAfter its creation → stored. LoadDefinition is the way back; it needs none of
// them.

#ifndef SERVICES_MASTER_CODEC_DEFINITION_H_
#define SERVICES_MASTER_CODEC_DEFINITION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::master {

struct Definition {
  storage::v1::DefinitionRecord record;
  cron::Timetable timetable = cron::Timetable(cron::TimetableSpec());
  // An interval whose anchor_time was not given: FillAnchor sets it. Until then the anchor is 1970.
  bool anchor_missing = false;
};

// The names of a request's fields in errors.
struct TimingFields {
  std::string prefix = "schedule.";
  std::string start_time = "start_time";
  std::string end_time = "end_time";

  std::string Of(absl::string_view name) const { return absl::StrCat(prefix, name); }
};

// Sets the anchor of an interval that was given without one, and its timetable; leaves everything
// else as it is, so it may be called of any definition, and again.
void FillAnchor(Definition& definition, absl::Time schedule_create_time);

// INVALID_ARGUMENT, reason IMPOSSIBLE_EXPRESSION, if it has no occurrence at all; the field is that
// which leaves none ("schedule.cron", "schedule.exclusions"). DraftOf asks it already of
// everything but an interval whose anchor is missing.
absl::Status CheckFires(const Definition& definition, const TimingFields& fields = {});

// INVALID_ARGUMENT (INVALID_FIELD) if every occurrence is at or before `now`: a schedule that would
// never fire is not made. An update may well end a schedule that way; it is FINISHED then.
absl::Status CheckFiresAfter(const Definition& definition, absl::Time now,
                             const TimingFields& fields = {});

// DATA_LOSS if a stored definition cannot be read any more.
absl::StatusOr<Definition> LoadDefinition(storage::v1::DefinitionRecord record);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_DEFINITION_H_
