#include "tests/simulation/checkers/model/expectations.h"

#include <algorithm>
#include <vector>

#include "tests/simulation/checkers/model/life_model.h"
#include "tests/simulation/checkers/model/naive_expander.h"

namespace escapement::simulation {
namespace {

// True if a row that was made ahead may be delivered after the pause. Updates during the pause may
// also have the occurrence.
bool AfterPause(const LifeModel& model, const LifeModel::Phase& phase, const std::string& id,
                absl::Time due) {
  if (!phase.paused) return false;
  bool may_have = false;
  for (const LifeModel::Phase& later : model.phases()) {
    if (later.begins_first < phase.begins_first) continue;
    may_have = may_have || ((later.paused || later.enabled) && model.MayHave(later, id, due));
    if (!later.paused) return later.enabled && may_have;
  }
  return false;
}

void ExpectOne(const LifeModel& model, const std::string& id, ExpectedRun* run) {
  bool any = false;
  bool all = true;
  const absl::Time due = run->due;
  for (const LifeModel::Phase& phase : model.phases()) {
    const bool claimed = due >= phase.ends_first && due < phase.ends_last + kClaimLead;
    if (claimed && phase.enabled && model.MayHave(phase, id, due)) any = true;
    if (!phase.May(due)) continue;
    // A row that was made ahead may meet no handler before the resume. Then it is delivered after
    // the resume.
    any = any || (phase.enabled && model.MayHave(phase, id, due)) ||
          AfterPause(model, phase, id, due);
    all = all && (phase.enabled || phase.owed()) && model.SurelyHas(phase, id, due);
  }
  run->only_skips = !any;
  run->required = any && all && due >= model.phases().front().begins_last;
}

// Occurrences of a backfill may have fired in any state of the schedule. Occurrences from before
// the schedule was made come from the backfill alone.
void ExpectBackfill(const ScheduleLife& life, const LifeModel& model, const Backfill& backfill,
                    ExpectedRuns* runs) {
  // The user makes one call after the other, so the latest version called before is in force.
  const LifeModel::Version* version = nullptr;
  for (const LifeModel::Version& candidate : model.versions()) {
    if (candidate.called <= backfill.called) version = &candidate;
  }
  if (version == nullptr) return;
  // A backfill ignores the schedule's start.
  Definition definition = version->definition;
  definition.start = absl::InfinitePast();
  for (const ExpectedOccurrence& occurrence :
       ExpandNaively(definition, backfill.begin, backfill.end)) {
    ExpectedRun& run = (*runs)[{life.uid, occurrence.id}];
    run.due = occurrence.instant;
    run.counts.insert(definition.count);
    run.only_skips = false;
    run.backfilled = true;
    if (occurrence.instant < backfill.done_to &&
        occurrence.instant < model.phases().front().begins_first)
      run.required = true;
  }
}

void ExpectLife(const ScheduleLife& life, const LifeModel& model, ExpectedRuns* runs) {
  if (model.phases().empty()) return;
  ExpectedRuns own;
  for (const LifeModel::Version& version : model.versions()) {
    for (const auto& [id, instant] : version.occurrences) {
      ExpectedRun& run = own[{life.uid, id}];
      run.due = instant;
      run.counts.insert(version.definition.count);
    }
  }
  for (auto& [key, run] : own) ExpectOne(model, key.second, &run);
  for (const Backfill& backfill : life.backfills) ExpectBackfill(life, model, backfill, &own);
  runs->merge(own);
}

}  // namespace

Expectations Expect(const History& history) {
  Expectations expected;
  ExpectedRuns& runs = expected.runs;
  for (const ScheduleLife& life : history.schedules) {
    expected.models.emplace_back(life, history.end);
    ExpectLife(life, expected.models.back(), &runs);
    for (const TriggeredRun& triggered : life.triggered) {
      ExpectedRun& run = runs[{life.uid, triggered.occurrence}];
      run.due = triggered.called;
      run.counts.insert(triggered.count);
      run.required = true;
      run.only_skips = false;
    }
  }
  return expected;
}

ExpectedRuns ExpectRuns(const History& history) { return Expect(history).runs; }

}  // namespace escapement::simulation
