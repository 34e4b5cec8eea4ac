#include "services/master/schedules/changes/resume_decision.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/timetable.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/schedule_warnings.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  using Launches = absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)>;
  Reading(MasterContext& context, const Uid& uid, absl::Time end, Launches done)
      : context_(context), uid_(uid), done_(std::move(done)) {
    LaunchKey last;
    last.partition = PartitionOf(uid, context.layout.partitions);
    last.launch_time = end;
    range_ = {ColumnFamily::kCheckpoints, LaunchPrefix(last.partition), EncodeLaunchKey(last)};
  }

  void Read() {
    ReadRanges(
        context_, {range_}, kLaunchRowsMax,
        [self = shared_from_this()](const KeyRange&, kv::Entry& entry) { return self->Add(entry); },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->ReadRuns();
        });
  }

 private:
  absl::StatusOr<bool> Add(kv::Entry& entry) {
    auto key = DecodeLaunchKey(entry.key);
    if (!key.has_value() || key->uid != uid_) return true;
    WaitingLaunch& launch = launches_.emplace_back();
    launch.key = *std::move(key);
    launch.bytes = std::move(entry.value);
    if (!launch.record.ParseFromString(launch.bytes)) return BrokenRecord("a launch record");
    return true;
  }

  void ReadRuns() {
    if (launches_.empty()) return done_(std::move(launches_));
    std::vector<kv::Key> keys;
    for (const WaitingLaunch& launch : launches_)
      keys.push_back({ColumnFamily::kRuns, EncodeRunKey({uid_, launch.key.occurrence})});
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> runs) {
                               if (!runs.ok()) return self->done_(StoreFailed(runs.status()));
                               self->OnRuns(*runs);
                             });
  }

  void OnRuns(const kv::GetResult& runs) {
    std::vector<WaitingLaunch> waiting;
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (!runs.values[i].has_value()) waiting.push_back(std::move(launches_[i]));
    }
    done_(std::move(waiting));
  }

  MasterContext& context_;
  const Uid uid_;
  Launches done_;
  KeyRange range_;
  std::vector<WaitingLaunch> launches_;
};

}  // namespace

void ReadWaitingLaunches(
    MasterContext& context, const ChangeInput& input,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)> done) {
  // None is further ahead than what was emitted, with its jitter.
  const absl::Time covered = FromMicros(input.snapshot.state.covered_to_micros());
  std::make_shared<Reading>(context, input.snapshot.uid, std::min(input.now, covered + kJitterMax),
                            std::move(done))
      ->Read();
}

Upcoming UpcomingOf(const cron::Timetable& timetable, absl::Time from, size_t max,
                    size_t candidates_max) {
  Upcoming upcoming;
  if (timetable.calendar() || !timetable.spec().excludes()) {
    upcoming.occurrences = timetable.Enumerate(from, absl::InfiniteFuture(), max);
    return upcoming;
  }
  cron::TimetableSpec plain = timetable.spec();
  plain.exclusions.clear();
  plain.days_off = nullptr;
  const cron::Timetable unrestricted(std::move(plain));
  size_t looked = 0;
  while (upcoming.occurrences.size() < max) {
    if (looked >= candidates_max) {
      upcoming.complete = false;
      break;
    }
    const size_t wanted = max - upcoming.occurrences.size();
    const std::vector<cron::Occurrence> candidates =
        unrestricted.Enumerate(from, absl::InfiniteFuture(), std::clamp<size_t>(wanted, 64, 1000));
    if (candidates.empty()) break;
    looked += candidates.size();
    // A timetable that ends with the candidates does not search beyond them.
    cron::TimetableSpec window = timetable.spec();
    window.end = candidates.back().instant + absl::Microseconds(1);
    const std::vector<cron::Occurrence> kept =
        cron::Timetable(std::move(window)).Enumerate(from, absl::InfiniteFuture(), wanted);
    upcoming.occurrences.insert(upcoming.occurrences.end(), kept.begin(), kept.end());
    from = candidates.back().instant + absl::Microseconds(1);
  }
  return upcoming;
}

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
