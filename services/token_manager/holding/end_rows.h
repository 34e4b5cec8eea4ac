// The rows that the ends of granted or waiting events write: Done records, dead letters, and rows
// of events that wait again. EndedRange: such an end.
//
// Pure: adds to a batch, decides nothing.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_END_ROWS_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_END_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "services/token_manager/holding/grant_set.h"

namespace escapement::token_manager {

// The last attempt of events; an AttemptRecord is made of it only where a row repeats it.
struct LastAttempt {
  storage::v1::AttemptRecord::Kind kind = storage::v1::AttemptRecord::KIND_UNSPECIFIED;  // none
  int32_t status = 0;
  int64_t begin_micros = 0;
  int64_t duration_micros = 0;
  std::string answer = {};  // only for failures
};

// Events [first, first + count) of a run have ended; or an attempt of them has.
struct EndedRange {
  std::shared_ptr<const RowSource> source = nullptr;
  uint64_t version = 0;  // version of the definition that was sent; 0: the row's
  uint64_t first = 0;
  uint64_t count = 0;
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SUCCEEDED;
  uint32_t attempts = 0;
  int64_t complete_micros = 0;
  std::string reason = {};
  std::string output = {};
  LastAttempt attempt = {};
  // Only for failures, for their dead letters: the schedule, or the payload of a one-off event.
  std::string schedule_id = {};
  std::string payload = {};
};

// The end, or the attempt, that a report of a handler or of a consumer is about; without `source`,
// `version`, range and texts of dead letters. attempts 0: as granted, and this one. The time is
// now_micros if the entry has none.
EndedRange ReportedEndOf(const storage::v1::GrantReportRecord::Entry& entry, int64_t now_micros);
// The same, of events that were held in the range of the grant. A handler's report has the
// attempt's times and status. A consumer's report has none: they are those of the range.
EndedRange EndOf(EndedRange reported, const Grant& grant, const HeldRange& range);

// Notes in the part of the run what its report says of the end.
void NoteForReport(const EndedRange& end, storage::v1::RunPartRecord& part);

// Adds `next` to `end` if it is an end of the same kind and of the events behind it; false: it is
// not.
bool Join(EndedRange& end, const EndedRange& next);

// Done records: contiguous alike events of a run together, but never across the slices of the queue
// shards; of failures one for each event, with its dead letter. Changes `ends`.
void AddEnds(std::vector<EndedRange>& ends, uint32_t queue_shards,
             std::vector<kv::Mutation>& mutations);

// The key of the row in which events of `source`, from index `first` on, wait until they are due.
std::string WaitingKeyOf(uint16_t policy_shard, const Uid& policy, const RowSource& source,
                         uint64_t first, int64_t due_micros);

// One event of the range, which waits for its next attempt after end.attempt. `tried`: when that
// began or was reported; the first attempt's time is kept.
storage::v1::EventRecord RetryEvent(const EndedRange& end, int64_t tried_micros);
// Where a one-off event with this retry row is found.
kv::Mutation RetryName(const RowSource& source, const std::string& waiting_key);

// The events of the range as they were before they were granted. `tried`: when their target could
// not be reached; 0: that is not why.
storage::v1::EventRecord ReturnedEvents(const RowSource& source, const HeldRange& range,
                                        int64_t tried_micros);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_END_ROWS_H_
