#include "services/emitter/launches/launch_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"

namespace escapement::emitter {

namespace {

using Kind = LaunchDecision::Kind;
using Wish = DueLaunch::Wish;

constexpr char kOverlap[] = "overlap";

// Decides one record after the other, with what that makes of the schedule.
class Planner {
 public:
  explicit Planner(const OverlapState& state) : state_(state) {}

  LaunchDecision Decide(const DueLaunch& due, size_t index) {
    switch (due.wish) {
      case Wish::kWait:
        return {.kind = Kind::kWait};
      case Wish::kSkip:
        return {.kind = Kind::kSkip, .reason = due.reason};
      case Wish::kDrop:
        return {.kind = Kind::kDrop};
      case Wish::kLaunch:
        break;
    }
    switch (state_.policy) {
      case storage::v1::RUN_OVERLAP_KIND_SKIP:
        if (state_.run_active) return {.kind = Kind::kSkipOverlap, .reason = kOverlap};
        return LaunchAlone();
      case storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE:
        if (!state_.run_active) return LaunchAlone();
        if (waiting_.has_value())
          return {.kind = Kind::kSkipBehind, .reason = kOverlap, .behind = *waiting_};
        waiting_ = index;
        return {.kind = Kind::kWait};
      case storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS:
        return CancelPrevious(due);
      default:
        return {.kind = Kind::kLaunch};
    }
  }

 private:
  LaunchDecision LaunchAlone() {
    state_.run_active = true;
    return {.kind = Kind::kLaunchAlone};
  }

  LaunchDecision CancelPrevious(const DueLaunch& due) {
    if (due.nominal_time < cancelled_before_) return {.kind = Kind::kSkip, .reason = kOverlap};
    // Where a later occurrence may come first, an earlier one must find that it is too late.
    if (!state_.run_active && !state_.out_of_order) return LaunchAlone();
    state_.run_active = true;
    cancelled_before_ = due.nominal_time;
    return {.kind = Kind::kCancelPrevious};
  }

  OverlapState state_;
  std::optional<size_t> waiting_;
  absl::Time cancelled_before_ = absl::InfinitePast();
};

}  // namespace

storage::v1::EventRecord RowToJudge(const LaunchKey& key, const storage::v1::LaunchRecord& record) {
  storage::v1::EventRecord row;
  row.set_tenant(record.tenant());
  row.set_version(record.version());
  row.set_count(1);
  row.set_run_count(record.event_count());
  row.set_nominal_time_micros(record.nominal_time_micros());
  row.set_launch_time_micros(ToMicros(key.launch_time));
  return row;
}

DueLaunch Judged(const RowJudgement& judged, const storage::v1::EventRecord& row, absl::Time now) {
  DueLaunch due{.nominal_time = FromMicros(row.nominal_time_micros())};
  switch (judged.action) {
    case RowJudgement::Action::kFetch:
    case RowJudgement::Action::kPark:
      due.wish = Wish::kWait;
      break;
    case RowJudgement::Action::kSkip:
      if (judged.superseded() && now < SupersededEndsAt(row)) {
        due.wish = Wish::kWait;
        break;
      }
      due.wish = Wish::kSkip;
      due.reason = judged.reason;
      break;
    case RowJudgement::Action::kDrop:
      due.wish = Wish::kDrop;
      break;
    case RowJudgement::Action::kSend:
    case RowJudgement::Action::kMove:
      break;
  }
  return due;
}

std::vector<LaunchDecision> PlanLaunches(const std::vector<DueLaunch>& due,
                                         const OverlapState& state) {
  std::vector<LaunchDecision> decisions;
  decisions.reserve(due.size());
  Planner planner(state);
  for (const DueLaunch& launch : due) decisions.push_back(planner.Decide(launch, decisions.size()));
  return decisions;
}

namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;
using Check = LaunchBatch::Check;
using Kind = LaunchDecision::Kind;

bool Launches(Kind kind) {
  return kind == Kind::kLaunch || kind == Kind::kLaunchAlone || kind == Kind::kCancelPrevious;
}

void Require(kv::Group& group, std::vector<Check>& checks, Check check, Condition condition) {
  group.conditions.push_back(std::move(condition));
  checks.push_back(check);
}

Condition NoneActive(const LaunchKey& key) {
  const std::string prefix = ActiveRunsOf(key.partition, key.uid);
  return {.cf = ColumnFamily::kCheckpoints,
          .key = prefix,
          .kind = Condition::Kind::kRangeCount,
          .value = PrefixEnd(prefix),
          .number = 0};
}

}  // namespace

std::string MarkOf(const LaunchKey& key) {
  return ActiveRunKey(key.partition, key.uid, key.occurrence);
}

std::string ActiveRunsOf(uint16_t partition, const Uid& uid) {
  return KeyWriter(ActiveRunPrefix(partition)).Id(uid).Take();
}

void LaunchBatch::Add(const Basis& basis, const std::vector<const Launch*>& due,
                      const std::vector<LaunchDecision>& decisions) {
  active_ = basis.active;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const LaunchDecision& decision = decisions[i];
    const Launch& launch = *due[i];
    if (decision.kind == Kind::kWait) continue;
    if (i == 0 || state_.key != StateKey(launch.key.uid)) {
      state_ = StateUnchanged(launch.key.uid, *basis.state);
      state_bytes_ = basis.state->bytes;
    }
    kv::Group group;
    Decided decided{.key = launch.key, .seq = launch.seq, .decision = decision};
    Require(group, decided.checks, Check::kLease, basis.lease);
    AddRecord(launch, decision, group, decided);
    if (decision.kind == Kind::kSkipBehind) {
      decided.waiting = EncodeLaunchKey(due[decision.behind]->key);
      Require(group, decided.checks, Check::kWaiting,
              kv::Present(ColumnFamily::kCheckpoints, decided.waiting));
    }
    AddOutcome(basis, launch, decision, group, decided);
    mutations_ += group.mutations.size();
    commit_.groups.push_back(std::move(group));
    decided_.push_back(std::move(decided));
  }
}

// The record goes, whatever is decided.
void LaunchBatch::AddRecord(const Launch& launch, const LaunchDecision& decision, kv::Group& group,
                            Decided& decided) {
  const std::string key = EncodeLaunchKey(launch.key);
  Require(group, decided.checks, Check::kRecord,
          kv::ValueIs(ColumnFamily::kCheckpoints, key, launch.bytes, launch.seq));
  Require(group, decided.checks, Check::kState, state_);
  if (decision.kind != Kind::kDrop) {
    Require(group, decided.checks, Check::kRun,
            kv::Absent(ColumnFamily::kRuns, EncodeRunKey({launch.key.uid, launch.key.occurrence})));
  }
  group.mutations.push_back(kv::Delete(ColumnFamily::kCheckpoints, key));
}

void LaunchBatch::AddOutcome(const Basis& basis, const Launch& launch,
                             const LaunchDecision& decision, kv::Group& group, Decided& decided) {
  const Uid& uid = launch.key.uid;
  if (decision.kind == Kind::kSkip || decision.kind == Kind::kSkipOverlap ||
      decision.kind == Kind::kSkipBehind) {
    if (decision.kind != Kind::kSkip)
      Require(group, decided.checks, Check::kActive,
              kv::Present(ColumnFamily::kCheckpoints, active_));
    group.mutations.push_back(SkippedOccurrence(SourceOf(uid, launch.record),
                                                ToEmitted(launch.key, launch.record),
                                                decision.reason, layout_, now_));
  }
  if (!Launches(decision.kind)) return;
  if (decision.kind == Kind::kLaunchAlone)
    Require(group, decided.checks, Check::kNoneActive, NoneActive(launch.key));
  EmittedOccurrence occurrence = ToEmitted(launch.key, launch.record);
  // The window of a run that was held back begins when it is launched.
  occurrence.window_begin = std::max(occurrence.launch_time, now_);
  AddLaunchedRows(SourceOf(*basis.definition->record), occurrence, layout_, now_, group.mutations);
  for (const Mutation& row : group.mutations) {
    if (row.cf == ColumnFamily::kWaiting)
      Require(group, decided.checks, Check::kRow, kv::Absent(row.cf, row.key));
  }
  active_ = MarkOf(launch.key);
  if (decision.kind != Kind::kCancelPrevious) return;
  // No change of the schedule: change_count stays, and with it the etag.
  storage::v1::StateRecord state = *basis.state->record;
  state.set_cancelled_before_micros(launch.record.nominal_time_micros());
  state_bytes_ = state.SerializeAsString();
  group.mutations.push_back(kv::Put(ColumnFamily::kStates, StateKey(uid), state_bytes_));
  state_ = kv::ValueIs(ColumnFamily::kStates, StateKey(uid), state_bytes_);
}

}  // namespace escapement::emitter
