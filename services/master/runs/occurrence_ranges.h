// Where, among occurrences in the order of their texts, those of a span of time stand.
//
// The text of an occurrence begins with its civil time in the schedule's zone, or in UTC
// (common/cron/occurrence_id.h). So the occurrences of a span of time stand in one range of texts
// for each zone.
//
// Pure.

#ifndef SERVICES_MASTER_RUNS_OCCURRENCE_RANGES_H_
#define SERVICES_MASTER_RUNS_OCCURRENCE_RANGES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/zone.h"

namespace escapement::master {

// Texts in [begin, end).
struct TextRange {
  std::string begin;
  std::string end;
};

// Ranges that hold the texts of all occurrences with a nominal time in [begin, end), ascending and
// apart; others stand in them, too. `zones`: all that the texts may name, beside UTC; empty: it may
// be any. They stay right if the rules of a zone have changed since by at most an hour.
std::vector<TextRange> OccurrenceRanges(absl::Time begin, absl::Time end,
                                        const std::vector<cron::Zone>& zones);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_OCCURRENCE_RANGES_H_
