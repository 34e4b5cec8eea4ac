#include "services/master/schedules/changes/max_runs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/micros.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

// A limited timetable has no more than that.
uint64_t CountIn(const cron::Timetable& timetable, absl::Time begin, absl::Time end) {
  return begin >= end ? 0 : timetable.Enumerate(begin, end, kMaxRunsMax).size();
}

}  // namespace

cron::Timetable EndingAt(const cron::Timetable& timetable, absl::Time finish) {
  cron::TimetableSpec spec = timetable.spec();
  spec.end = std::min(spec.end, finish);
  return cron::Timetable(std::move(spec));
}

uint64_t RunsUsedAt(const storage::v1::StateRecord& state, const Definition& definition,
                    absl::Time now) {
  if (definition.record.timing().max_runs() == 0) return 0;
  if (state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED) return state.runs_used();
  const absl::Time counted_to = FromMicros(state.covered_to_micros());
  if (counted_to <= now) return state.runs_used() + CountIn(definition.timetable, counted_to, now);
  return state.runs_used() -
         std::min(state.runs_used(), CountIn(definition.timetable, now, counted_to));
}

void LimitRuns(uint64_t used, absl::Time from, absl::Time counted_to, Definition& definition,
               storage::v1::StateRecord& state) {
  state.clear_finish_micros();
  state.clear_runs_used();
  const uint64_t max_runs = definition.record.timing().max_runs();
  if (max_runs == 0) return;
  const size_t left = max_runs - std::min(used, max_runs);
  const std::vector<cron::Occurrence> last =
      definition.timetable.Enumerate(from, absl::InfiniteFuture(), left);
  if (last.size() == left) {
    const absl::Time finish = last.empty() ? from : last.back().instant + absl::Microseconds(1);
    state.set_finish_micros(ToMicros(finish));
    definition.timetable = EndingAt(definition.timetable, finish);
  }
  state.set_runs_used(used + CountIn(definition.timetable, from, counted_to));
}

}  // namespace escapement::master
