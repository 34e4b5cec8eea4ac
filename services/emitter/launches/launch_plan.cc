#include "services/emitter/launches/launch_plan.h"

#include <algorithm>
#include <optional>

#include "common/base/proto_time.h"

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

}  // namespace escapement::emitter
