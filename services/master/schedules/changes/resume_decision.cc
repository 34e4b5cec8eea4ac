#include "services/master/schedules/changes/resume_decision.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/micros.h"
#include "common/cron/misfire.h"
#include "common/status/return_if_error.h"
#include "common/storage/child_rows.h"
#include "common/storage/occurrence_rows.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/max_runs.h"
#include "services/master/schedules/changes/missed_split.h"

namespace escapement::master {
namespace {

class Resume {
 public:
  Resume(const ChangeInput& input, const std::vector<WaitingLaunch>& launches)
      : input_(input),
        launches_(launches),
        builder_(input.snapshot, input.name, input.layout, input.now),
        paused_at_(FromMicros(input.snapshot.state.pause_time_micros())),
        definition_(*input.snapshot.definition) {}

  absl::StatusOr<Decision> Decide() {
    const ScheduleSnapshot& snapshot = input_.snapshot;
    RETURN_IF_ERROR(MakePlan());
    if (SkipLaunches()) return SomeOfIt();
    if (snapshot.parked_more) return SkipSomeParked();
    builder_.GuardParked();
    for (const ParkedRow& parked : snapshot.parked) {
      if (Skips(parked)) {
        RETURN_IF_ERROR(builder_.SkipParked(parked, "paused"));
      } else {
        builder_.ReturnParked(parked, definition_);
      }
    }
    builder_.PutRunParts();
    storage::v1::StateRecord state = NextState(input_);
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.clear_pause_reason();
    state.clear_pause_time_micros();
    RETURN_IF_ERROR(EmitAndLimit(state));
    builder_.PutChildren(definition_);
    state.set_covered_to_micros(ToMicros(builder_.from()));
    builder_.PutState(state);
    return ToDecision(builder_, std::make_unique<v1::Schedule>(
                                    ShownAfter(input_, *snapshot.record, state, definition_)));
  }

 private:
  // Where max_runs are not used up the end that they made moves: the pause did not count.
  absl::Status MakePlan() {
    if (RunsLeft() > 0) {
      absl::StatusOr<cron::Timetable> timetable = TimetableOf(definition_.record);
      if (!timetable.ok()) return BrokenRecord(input_.name.ToString());
      definition_.timetable = *std::move(timetable);
    }
    // Every occurrence that fell due during the pause is missed, even the last one: the threshold
    // is only for unwanted delays.
    cron::MisfirePolicy policy = MisfirePolicyOf(definition_.record.misfire());
    policy.threshold = absl::ZeroDuration();
    plan_ = cron::PlanMissed(definition_.timetable, policy, paused_at_, input_.now);
    return absl::OkStatus();
  }

  uint64_t RunsLeft() const {
    const uint64_t max_runs = definition_.record.timing().max_runs();
    if (max_runs == 0) return std::numeric_limits<uint64_t>::max();
    return max_runs - std::min(max_runs, input_.snapshot.state.runs_used());
  }

  bool Skips(const ParkedRow& parked) const {
    if (parked.due_time >= input_.now || parked.row.triggered()) return false;
    if (parked.throttled() && parked.due_time < paused_at_) return false;
    return Missed(FromMicros(parked.row.nominal_time_micros()));
  }

  bool Missed(absl::Time nominal) const {
    return nominal < paused_at_ ? plan_.fire_from > paused_at_ : !plan_.Fires(nominal);
  }

  // True if there are more launch records than one commit takes. This group handles the first ones,
  // and the schedule stays paused.
  bool SkipLaunches() {
    size_t skipped = 0;
    for (const WaitingLaunch& launch : launches_) {
      if (launch.key.launch_time >= input_.now ||
          !Missed(FromMicros(launch.record.nominal_time_micros())))
        continue;
      if (skipped++ == kParkedChunkMax) return true;
      builder_.SkipLaunch(launch, "paused");
    }
    return false;
  }

  Decision SomeOfIt() {
    Decision decision = ToDecision(builder_, nullptr);
    decision.partial = true;
    return decision;
  }

  // For more parked rows than one commit takes. The skipped ones go first, and the schedule stays
  // paused. If the rows that would go on are alone too many, due ones are skipped, too: a resume
  // must come to an end.
  absl::StatusOr<Decision> SkipSomeParked() {
    for (const bool due_ones : {false, true}) {
      size_t skipped = 0;
      for (const ParkedRow& parked : input_.snapshot.parked) {
        if (due_ones ? parked.due_time >= input_.now : !Skips(parked)) continue;
        RETURN_IF_ERROR(builder_.SkipParked(parked, "paused"));
        ++skipped;
      }
      if (skipped == 0) continue;
      builder_.PutRunParts();
      return SomeOfIt();
    }
    return EmissionBehind(input_.name.ToString());
  }

  // Emits occurrences that were never emitted, and sets the end that max_runs leaves.
  absl::Status EmitAndLimit(storage::v1::StateRecord& state) {
    const absl::Time covered = std::clamp(builder_.covered(), paused_at_, input_.now);
    MissedSplit missed =
        SplitMissed(definition_.timetable, plan_, covered, input_.now,
                    std::min(builder_.RoomBesideUpcoming(definition_), kChangeOccurrencesMax));
    if (definition_.record.timing().max_runs() == 0) {
      RETURN_IF_ERROR(builder_.EmitMissed(definition_, missed, "paused"));
      return builder_.EmitUpcoming(definition_);
    }
    const uint64_t left = RunsLeft();
    // Those whose rows are there already.
    const absl::Time fire_from = std::max(plan_.fire_from, paused_at_);
    std::vector<cron::Occurrence> fired = StillToCome(std::min(fire_from, covered));
    if (fire_from < covered) {
      const std::vector<cron::Occurrence> there =
          definition_.timetable.Enumerate(fire_from, covered, kMaxRunsMax);
      fired.insert(fired.end(), there.begin(), there.end());
    }
    fired.insert(fired.end(), missed.fired.begin(), missed.fired.end());
    if (fired.size() >= left) {
      // Its last occurrence is one of these.
      const size_t beyond = std::min<size_t>(fired.size() - left, missed.fired.size());
      missed.fired.resize(missed.fired.size() - beyond);
      fired.resize(left);
    }
    RETURN_IF_ERROR(builder_.EmitMissed(definition_, missed, "paused"));
    absl::Time from = input_.now;
    if (left == 0) {
      // Its end stays: there may be rows behind it.
      from = std::min(from, FinishOf(input_.snapshot.state));
    } else if (fired.size() == left) {
      from = fired.back().instant + absl::Microseconds(1);
    }
    LimitRuns(state.runs_used() + fired.size(), from, builder_.from(), definition_, state);
    return builder_.EmitUpcoming(definition_);
  }

  // Those of the pause that were emitted before `end`, and have a launch time that is not past.
  std::vector<cron::Occurrence> StillToCome(absl::Time end) const {
    const OccurrenceSource source = SourceOf(definition_.record);
    if (source.jitter == absl::ZeroDuration() || paused_at_ >= end) return {};
    std::vector<cron::Occurrence> to_come =
        definition_.timetable.Enumerate(paused_at_, end, kMaxRunsMax);
    std::erase_if(to_come, [&](const cron::Occurrence& occurrence) {
      return ToEmitted(source, definition_.timetable, occurrence).launch_time < input_.now;
    });
    return to_come;
  }

  const ChangeInput& input_;
  const std::vector<WaitingLaunch>& launches_;
  ChangeBuilder builder_;
  const absl::Time paused_at_;
  Definition definition_;
  cron::MisfirePlan plan_;
};

}  // namespace

absl::StatusOr<Decision> DecideResume(const ChangeInput& input,
                                      const std::vector<WaitingLaunch>& launches,
                                      const v1::ResumeScheduleRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  const storage::v1::ScheduleStateKind kind = input.snapshot.state.kind();
  if (kind != storage::v1::SCHEDULE_STATE_KIND_PAUSED)
    return WrongState(input.name.ToString(), StateName(kind), "PAUSED");
  return Resume(input, launches).Decide();
}

}  // namespace escapement::master
