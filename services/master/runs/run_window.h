// Reads what the store holds of a schedule's runs in a window of time.
//
// Reads all at once: `runs`, and `done` of each shard and each UTC day on which the window's
// occurrences may have been launched, where the occurrences of that window stand
// (run_listing.h). A run of one event that has no row in `runs` is found only after it has ended.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_RUN_WINDOW_H_
#define SERVICES_MASTER_RUNS_RUN_WINDOW_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/runs/single_event.h"

namespace escapement::master {

struct RunWindowQuery {
  Uid uid;
  // Nominal times [begin, end).
  absl::Time begin;
  absl::Time end;
  std::vector<cron::Zone> zones;  // as OccurrenceRanges
  absl::Duration jitter;          // launches are at most so long after their nominal times
  size_t runs_max = 0;            // more than about so many: crowded
};

// One of the two is set.
struct StoredRunRow {
  absl::Time nominal_time;
  SingleEvent single;                            // for a run of one event: its end
  std::optional<storage::v1::RunRecord> record;  // for a run of many events
};

// No window is narrower.
inline constexpr absl::Duration kRunWindowMin = absl::Microseconds(1);

struct RunWindow {
  std::map<std::string, StoredRunRow> runs;  // by occurrence
  // There are too many: not all are in `runs`, and the window is to be read as narrower ones. Never
  // of a window of kRunWindowMin.
  bool crowded = false;
  int scans = 0;  // that it took
};

void ReadRunWindow(MasterContext& context, RunWindowQuery query,
                   absl::AnyInvocable<void(absl::StatusOr<RunWindow>)> done);

// The keys of all parts that the counts of a run may have (MasterContext::RunPartsMax).
std::vector<kv::Key> RunPartKeys(const RunKey& run, const kv::Layout& layout);

// A Done record that stands for several occurrences, which were skipped together.
struct SkipSummary {
  absl::Time first, last;  // nominal times of the first and of the last one
  std::string reason;
};
// nullopt: the record is none of several occurrences.
std::optional<SkipSummary> SummaryOf(const storage::v1::DoneRecord& done);

struct SummaryQuery {
  Uid uid;
  // Nominal times of the first and the last occurrence for which summaries are wanted.
  absl::Time first, last;
  absl::Time back_to;             // no earlier day is read
  std::vector<cron::Zone> zones;  // as OccurrenceRanges
  // Called with the summaries found so far, after each day. True: the search ends.
  absl::AnyInvocable<bool(const std::vector<SkipSummary>&)> enough;
};
// Searches day by day backwards, because a summary stands at its first occurrence. At most
// kAccountSummaryRowsMax records of each shard and day are read.
void FindSummaries(MasterContext& context, SummaryQuery query,
                   absl::AnyInvocable<void(absl::Status)> done);

struct LastSent {
  std::optional<absl::Time> time;  // nullopt: none was sent
  bool cut = false;                // there are more records than were read
};
// When the last of a run's events was first sent, by its Done records of these UTC days. At most
// kAccountDoneRowsMax records are read.
void FindLastSent(MasterContext& context, const RunKey& run, const std::set<uint32_t>& days,
                  absl::AnyInvocable<void(absl::StatusOr<LastSent>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_WINDOW_H_
