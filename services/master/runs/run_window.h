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
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/zone.h"
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

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_WINDOW_H_
