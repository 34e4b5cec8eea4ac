// Decides what a backfill writes and answers: runs for the occurrences of a past range that have
// not fired.
//
// An occurrence has fired if there is a run record, a Done record, a waiting launch record, or its
// only event's row or claim, at the places of the present definition. A Done record of an
// occurrence (or of an only event) that was skipped before it was sent is replaced. Records that
// retention has dropped are not known any more.
//
// The new runs are marked as triggered and have run records, for n = 1 too. Runs of a throttled
// schedule wait like others; their window begins now.
//
// If the first occurrence of a summary record fires, the rest of the record moves to the first
// later occurrence of the record's version that has not fired and does not fire now.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_DECISION_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_DECISION_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/schedules/changes/schedule_decisions.h"

namespace escapement::master {

struct BackfillRange {
  absl::Time begin, end;  // end at most now
  size_t occurrences_max = 0;
};

struct BackfillOccurrence {
  EmittedOccurrence emitted;
  // It has fired or is about to. Found out by who reads; unknown until then.
  bool present = false;
  // The keys of its Done record, were it skipped or of an only event, with what is there.
  std::map<std::string, std::optional<std::string>> done;
};

// A summary record of a version before the present one, which begins with an occurrence of the
// range.
struct FormerSummary {
  OccurrenceSource source;               // that version's definition
  std::vector<BackfillOccurrence> rest;  // those after the first, as many as are worth a look
};

// The occurrences of one call.
struct BackfillScope {
  OccurrenceSource source;
  std::vector<BackfillOccurrence> occurrences;  // occurrences in the range
  std::vector<BackfillOccurrence> carriers;     // those after them, as many as are worth a look
  std::optional<absl::Time> beyond;  // the first occurrence of the range that this call leaves out
  std::map<std::string, FormerSummary> former;  // by the id of their first occurrence
  // Found out by who reads: a place had too many rows to read all, so occurrences that are not
  // present may be in the rest.
  bool cut = false;
};

// Only what the emitter has left behind (`covered` of change_builder.h) is in the scope: what it
// still owes is left to it.
BackfillScope ScopeOf(const ChangeInput& input, const BackfillRange& range);

// Where the Done record of an occurrence would be, if it was skipped or has one event. The values
// are empty.
std::map<std::string, std::optional<std::string>> DoneKeys(const OccurrenceSource& source,
                                                           const EmittedOccurrence& emitted,
                                                           const kv::Layout& layout);
// Where the row of an occurrence's only event, or its launch record, would be.
std::vector<kv::Key> QueueKeys(const OccurrenceSource& source, const BackfillOccurrence& occurrence,
                               const kv::Layout& layout);

// Takes in what its Done keys hold. DATA_LOSS if that cannot be read.
absl::Status NoteOutcome(BackfillOccurrence& occurrence);

// The summary record that begins with this occurrence, if it is of another version than `version`.
std::optional<storage::v1::DoneRecord> FormerSummaryAt(const BackfillOccurrence& first,
                                                       uint64_t version);
// `version`: that of the record.
FormerSummary RestOf(const storage::v1::DoneRecord& summary, const BackfillOccurrence& first,
                     const Definition& version, const kv::Layout& layout);

// NOT_FOUND, or ABORTED if `etag` is given and not the current one. `scope` is of the same
// snapshot.
absl::StatusOr<Decision> DecideBackfill(const ChangeInput& input, const BackfillScope& scope,
                                        const std::string& etag);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_BACKFILL_DECISION_H_
