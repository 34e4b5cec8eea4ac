// The identity of an occurrence as text. It is part of keys, of resource names
// (`…/runs/{occurrence}`) and of event ids.
//
//   calendar  20261121T030000-0-Asia~Kolkata    civil time, fold, zone with '/' written '~'
//   instant   20261121T030000.000000Z           UTC, microseconds: intervals and one-off times
//
// Identities of one kind (and one zone) sort by civil time, then fold. Pure.

#ifndef COMMON_CRON_OCCURRENCE_ID_H_
#define COMMON_CRON_OCCURRENCE_ID_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace escapement::cron {

struct OccurrenceId {
  bool calendar = false;
  absl::CivilSecond civil;  // calendar only, years 0 to 9999
  int fold = 0;             // calendar only, 0 to 9
  std::string zone;         // calendar only: IANA name
  absl::Time instant;       // others only: whole microseconds

  friend bool operator==(const OccurrenceId&, const OccurrenceId&) = default;
};

std::string FormatCalendarOccurrence(absl::CivilSecond civil, int fold, absl::string_view zone);
// Fractions of a microsecond are cut off.
std::string FormatInstantOccurrence(absl::Time instant);

// Accepts exactly the texts that the functions above write; INVALID_ARGUMENT otherwise. Does not
// look up the zone.
absl::StatusOr<OccurrenceId> ParseOccurrence(absl::string_view text);

}  // namespace escapement::cron

#endif  // COMMON_CRON_OCCURRENCE_ID_H_
