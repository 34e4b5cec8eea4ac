// Which occurrences a schedule's definitions give in a range of time, and what their records say of
// them.
//
// Each version has the occurrences of its own time in force: from the instant of the change that
// made it (a new schedule: after it) until the next change. This is the contract between changes
// and the emitter (schedules/changes/change_builder.h), so each of these occurrences must have a
// trace: an outcome, a place in a summary, or a row.
//
// Pure.

#ifndef SERVICES_MASTER_RUNS_EXPECTED_OCCURRENCES_H_
#define SERVICES_MASTER_RUNS_EXPECTED_OCCURRENCES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/schedule_service.pb.h"

namespace escapement::master {

// One version's time in force.
struct VersionTerm {
  OccurrenceSource source;
  cron::Timetable timetable;  // without what is beyond max_runs, as far as that is known
  absl::Time begin, end;      // [begin, end)
  // An occurrence whose last event is first sent this much after its launch time is on time.
  absl::Duration allowance;
  // Occurrences may be beyond max_runs, of this version or of one that replaced it in a pause. Only
  // those that have a trace count.
  bool end_unknown = false;
};

// `versions`: the present definition first, then former ones without a gap. Ascending by time.
// INVALID_ARGUMENT if a timetable cannot be read.
absl::StatusOr<std::vector<VersionTerm>> TermsOf(
    const std::vector<storage::v1::DefinitionRecord>& versions,
    const storage::v1::StateRecord& state);

struct ExpectedOccurrence {
  size_t term = 0;  // index in the terms
  EmittedOccurrence emitted;
};

// The occurrences in [begin, end) after the first `passed` of those at `begin`: at most `max`.
std::vector<ExpectedOccurrence> Expect(const std::vector<VersionTerm>& terms, absl::Time begin,
                                       absl::Time end, size_t passed, size_t max);

// When the last of the record's events was first sent; nullopt: none was sent. If an event has more
// attempts than a record remembers, the first one that is remembered counts.
std::optional<absl::Time> LastFirstSent(const storage::v1::DoneRecord& done);

// These set result, reason and lateness. `allowance`: as VersionTerm.
//
// The occurrence has one event, or was skipped as a whole.
void SetEnded(const storage::v1::DoneRecord& done, absl::Duration allowance,
              v1::Occurrence& occurrence);
// All events of the run have ended. `sent`: when its last event was first sent; nullopt: not known,
// but on time.
void SetEnded(const storage::v1::RunPartRecord& counts, absl::Time launch_time,
              std::optional<absl::Time> sent, absl::Duration allowance, v1::Occurrence& occurrence);
void SetSkipped(absl::string_view reason, v1::Occurrence& occurrence);
void SetPending(absl::string_view reason, absl::Time launch_time, absl::Time now,
                v1::Occurrence& occurrence);

// Number of events that have ended.
uint64_t EndedCount(const storage::v1::RunPartRecord& counts);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_EXPECTED_OCCURRENCES_H_
