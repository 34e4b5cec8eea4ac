// Runs and their events as shown to users. Pure.

#ifndef SERVICES_MASTER_RUNS_RUN_CODEC_H_
#define SERVICES_MASTER_RUNS_RUN_CODEC_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/storage/event_id.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/single_event.h"

namespace escapement::master {

// Shows a run that has rows of its own. `counts` is the sum of its parts; its state and its ETA are
// those at `now` (store time).
v1::Run ShowRun(const RunName& name, const storage::v1::RunRecord& run,
                const storage::v1::RunPartRecord& counts, absl::Time now);
// The report of an ended run of several events.
v1::RunReport ShowReport(const RunName& name, const storage::v1::RunPartRecord& counts);
// Shows a run of one event, or an occurrence that was skipped as a whole or waits for its launch
// (any n). The event has been found.
v1::Run ShowSingleRun(const RunName& name, const SingleEvent& event, absl::Time now);
void AddCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum);

// An event of a run. `first`: index of the first event of the Done record.
v1::Event ShowEndedRunEvent(const RunName& run, const RunIdentity& identity, uint64_t index,
                            const storage::v1::DoneRecord& done, uint64_t first);
v1::Event ShowWaitingRunEvent(const RunName& run, const RunIdentity& identity, uint64_t index,
                              const storage::v1::EventRecord& row, v1::EventState state);

// "outcome=FAILED" → FAILED; unset for the empty filter. INVALID_ARGUMENT (filter) for anything
// else.
absl::StatusOr<std::optional<v1::Outcome>> ReadOutcomeFilter(absl::string_view filter);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_CODEC_H_
