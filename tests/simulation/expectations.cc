#include "tests/simulation/expectations.h"

#include <algorithm>
#include <vector>

#include "tests/simulation/naive_expander.h"

namespace escapement::simulation {
namespace {

// Events are claimed up to this much ahead of their time, and what was claimed before a change is
// sent after it.
constexpr absl::Duration kClaimLead = absl::Milliseconds(25);

// What a schedule is between two changes.
struct Phase {
  bool fires = false;
  bool paused = false;
  bool resumed = false;  // later
  Definition definition;
  absl::Time begins_first, begins_last;  // its begin lies between them
  absl::Time ends_first, ends_last;
  bool May(absl::Time t) const { return t >= begins_first && t < ends_last; }
};

std::vector<Phase> PhasesOf(const ScheduleLife& life, absl::Time end) {
  std::vector<Phase> phases;
  for (const ScheduleChange& change : life.changes) {
    Phase next;
    if (!phases.empty()) {
      phases.back().ends_first = change.called;
      phases.back().ends_last = change.answered;
      next = phases.back();
    }
    next.begins_first = change.called;
    next.begins_last = change.answered;
    next.ends_first = next.ends_last = end;
    switch (change.kind) {
      case ScheduleChange::Kind::kCreate:
        next.fires = true;
        next.definition = change.definition;
        break;
      case ScheduleChange::Kind::kUpdate:
        next.definition = change.definition;  // a paused schedule stays paused
        break;
      case ScheduleChange::Kind::kResume:
        next.fires = true;
        next.paused = false;
        for (Phase& phase : phases) phase.resumed = true;
        break;
      case ScheduleChange::Kind::kPause:
        next.fires = false;
        next.paused = true;
        break;
      case ScheduleChange::Kind::kDelete:
        next.fires = next.paused = false;
        break;
    }
    phases.push_back(next);
  }
  return phases;
}

void ExpectLife(const ScheduleLife& life, absl::Time end, ExpectedRuns* runs) {
  const std::vector<Phase> phases = PhasesOf(life, end);
  if (phases.empty()) return;
  std::vector<std::set<std::string>> has(phases.size());  // by phase, also outside its own time
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    // Rows are made ahead: of a definition that is replaced before they fall due they end as
    // skipped.
    for (const ExpectedOccurrence& occurrence :
         ExpandNaively(phase.definition.cron, phase.definition.zone, phase.begins_first,
                       phase.ends_last + absl::Minutes(5))) {
      ExpectedRun& run = (*runs)[{life.uid, occurrence.id}];
      run.due = occurrence.instant;
      run.counts.insert(phase.definition.count);
      has[i].insert(occurrence.id);
    }
  }
  for (auto& [key, run] : *runs) {
    if (key.first != life.uid) continue;
    bool any = false;
    bool all = true;
    for (size_t i = 0; i < phases.size(); ++i) {
      const bool claimed =
          run.due >= phases[i].ends_first && run.due < phases[i].ends_last + kClaimLead;
      if (claimed && phases[i].fires && has[i].count(key.second) > 0) any = true;
      if (!phases[i].May(run.due)) continue;
      const bool fires = phases[i].fires && has[i].count(key.second) > 0;
      // A row that was made ahead, and that no handler came to see before the resume, is delivered
      // after it.
      const bool late = phases[i].paused && phases[i].resumed && has[i].count(key.second) > 0;
      any = any || fires || late;
      all = all && fires;
    }
    run.only_skips = !any;
    run.required = any && all && run.due >= phases.front().begins_last;
  }
}

}  // namespace

ExpectedRuns ExpectRuns(const History& history) {
  ExpectedRuns runs;
  for (const ScheduleLife& life : history.schedules) {
    ExpectLife(life, history.end, &runs);
    for (const TriggeredRun& triggered : life.triggered) {
      ExpectedRun& run = runs[{life.uid, triggered.occurrence}];
      run.due = triggered.called;
      run.counts.insert(triggered.count);
      run.required = true;
      run.only_skips = false;
    }
  }
  return runs;
}

}  // namespace escapement::simulation
