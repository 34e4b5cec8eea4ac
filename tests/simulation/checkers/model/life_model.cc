#include "tests/simulation/checkers/model/life_model.h"

#include <algorithm>

#include "tests/simulation/checkers/model/naive_expander.h"

namespace escapement::simulation {

using Kind = ScheduleChange::Kind;

LifeModel::LifeModel(const ScheduleLife& life, absl::Time end) {
  MakePhases(life, end);
  MarkPauses();
  Expand(life);
  CountRuns();
}

void LifeModel::MakePhases(const ScheduleLife& life, absl::Time end) {
  for (const ScheduleChange& change : life.changes) {
    Phase next;
    if (!phases_.empty()) {
      phases_.back().ends_first = change.called;
      phases_.back().ends_last = change.answered;
      next = phases_.back();
    }
    next.begins_first = change.called;
    next.begins_last = change.answered;
    next.ends_first = next.ends_last = end;
    if (change.kind == Kind::kCreate || change.kind == Kind::kUpdate) {
      next.version = versions_.size();
      versions_.push_back({change.definition, change.called, change.answered, {}, {}});
    }
    switch (change.kind) {
      case Kind::kCreate:
      case Kind::kResume:
        next.enabled = true;
        next.paused = false;
        break;
      case Kind::kUpdate:
        break;  // a paused schedule stays paused
      case Kind::kPause:
        next.enabled = false;
        next.paused = true;
        break;
      case Kind::kDelete:
        next.enabled = next.paused = false;
        break;
    }
    phases_.push_back(next);
  }
}

void LifeModel::MarkPauses() {
  const auto same_times = [&](size_t a, size_t b) {
    const Definition& one = versions_[a].definition;
    const Definition& other = versions_[b].definition;
    return one.cron == other.cron && one.zone == other.zone && one.every == other.every &&
           one.anchor == other.anchor && one.times == other.times &&
           one.exclusions == other.exclusions && one.start == other.start && one.end == other.end;
  };
  for (size_t i = phases_.size(); i-- > 1;) {
    Phase& phase = phases_[i - 1];
    const Phase& next = phases_[i];
    if (!phase.paused) continue;
    // An update during a pause may leave some times unchanged. The model does not tell which, so it
    // compares the definitions as wholes.
    const bool same = next.paused && same_times(phase.version, next.version);
    phase.updated = next.paused;
    phase.resumed = next.enabled || (same && next.resumed);
    phase.replaced = next.paused && (!same || next.replaced);
  }
}

void LifeModel::Expand(const ScheduleLife& life) {
  if (phases_.empty()) return;
  // A later version may fire occurrences that an earlier one held back, or that a backfill asks
  // for.
  bool from_begin = !life.backfills.empty();
  for (const Version& version : versions_)
    from_begin = from_begin || version.definition.overlap != Definition::Overlap::kAllow;
  absl::Time first = phases_.front().begins_first;
  for (const Backfill& backfill : life.backfills) first = std::min(first, backfill.begin);
  for (size_t i = 0; i < versions_.size(); ++i) {
    Version& version = versions_[i];
    absl::Time begin = version.called;
    absl::Time end = version.called;
    bool current = false;
    for (const Phase& phase : phases_) {
      // The version of a resume decides about the whole pause.
      if (!current && phase.paused && phase.begins_first < begin) begin = phase.begins_first;
      if (!current && !phase.paused) begin = version.called;
      if (phase.version != i) continue;
      current = true;
      if (phase.enabled || phase.paused) end = phase.ends_last;
    }
    if (from_begin) begin = first;
    // Rows are made ahead. If the definition is replaced before they fall due, they end as skipped.
    for (const ExpectedOccurrence& occurrence :
         ExpandNaively(version.definition, begin, end + absl::Minutes(5))) {
      version.occurrences[occurrence.id] = occurrence.instant;
      version.instants.push_back(occurrence.instant);
    }
  }
}

int64_t LifeModel::CountIn(const Phase& phase, absl::Time begin, absl::Time end) const {
  const std::vector<absl::Time>& instants = versions_[phase.version].instants;
  if (begin >= end) return 0;
  return std::lower_bound(instants.begin(), instants.end(), end) -
         std::lower_bound(instants.begin(), instants.end(), begin);
}

// An occurrence in a pause counts if the resume fires it. The version of the resume may fire
// occurrences of every part of the pause.
void LifeModel::CountRuns() {
  for (size_t i = 1; i < phases_.size(); ++i) {
    Phase& phase = phases_[i];
    if (versions_[phase.version].definition.max_runs == 0) continue;
    const Phase& former = phases_[i - 1];
    if (const int64_t former_max = versions_[former.version].definition.max_runs; former_max > 0) {
      phase.used_low = former.used_low;
      phase.used_high = former.used_high;
      if (former.enabled) phase.used_low += CountIn(former, former.begins_last, former.ends_first);
      if (former.enabled || former.paused)
        phase.used_high += CountIn(former, former.begins_first, former.ends_last);
      phase.used_low = std::min(phase.used_low, std::max(former.used_low, former_max));
      phase.used_high = std::min(phase.used_high, std::max(former.used_high, former_max));
    }
    for (size_t j = i; j > 0 && phases_[j - 1].paused; --j)
      phase.used_high += CountIn(phase, phases_[j - 1].begins_first, phases_[j - 1].ends_last);
  }
}

bool LifeModel::MayHave(const Phase& phase, const std::string& id, absl::Time due) const {
  const Version& version = versions_[phase.version];
  if (version.occurrences.count(id) == 0) return false;
  if (version.definition.max_runs == 0) return true;
  const int64_t before = phase.enabled ? CountIn(phase, phase.begins_last, due) : 0;
  return phase.used_low + before < version.definition.max_runs;
}

bool LifeModel::SurelyHas(const Phase& phase, const std::string& id, absl::Time due) const {
  const Version& version = versions_[phase.version];
  if (version.occurrences.count(id) == 0) return false;
  if (version.definition.max_runs == 0) return true;
  return phase.used_high + CountIn(phase, phase.begins_first, due) < version.definition.max_runs;
}

}  // namespace escapement::simulation
