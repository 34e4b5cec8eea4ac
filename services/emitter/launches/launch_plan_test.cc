#include "services/emitter/launches/launch_plan.h"

#include "gtest/gtest.h"

namespace escapement::emitter {
namespace launch_plan_test {

using Kind = LaunchDecision::Kind;
using Wish = DueLaunch::Wish;

constexpr auto kAllow = storage::v1::RUN_OVERLAP_KIND_ALLOW;
constexpr auto kSkip = storage::v1::RUN_OVERLAP_KIND_SKIP;
constexpr auto kBuffer = storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE;
constexpr auto kCancel = storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS;

// Occurrences a minute apart, all wanted.
std::vector<DueLaunch> Due(size_t count) {
  std::vector<DueLaunch> due;
  for (size_t i = 0; i < count; ++i)
    due.push_back({.nominal_time = absl::FromUnixSeconds(60 * static_cast<int64_t>(i))});
  return due;
}

std::vector<Kind> Kinds(const std::vector<DueLaunch>& due, const OverlapState& state) {
  std::vector<Kind> kinds;
  for (const LaunchDecision& decision : PlanLaunches(due, state)) kinds.push_back(decision.kind);
  return kinds;
}

TEST(LaunchPlanTest, EachPolicyDoesWithOneOccurrenceWhatItSays) {
  struct Case {
    storage::v1::RunOverlapKind policy;
    bool active;
    Kind kind;
  };
  for (const Case& c :
       {Case{kAllow, false, Kind::kLaunch}, Case{kAllow, true, Kind::kLaunch},
        Case{kSkip, false, Kind::kLaunchAlone}, Case{kSkip, true, Kind::kSkipOverlap},
        Case{kBuffer, false, Kind::kLaunchAlone}, Case{kBuffer, true, Kind::kWait},
        Case{kCancel, false, Kind::kLaunchAlone}, Case{kCancel, true, Kind::kCancelPrevious}}) {
    EXPECT_EQ(Kinds(Due(1), {.policy = c.policy, .run_active = c.active}), std::vector{c.kind})
        << c.policy << " " << c.active;
  }
}

TEST(LaunchPlanTest, OverdueLaunchesFollowEachOther) {
  EXPECT_EQ(Kinds(Due(3), {.policy = kAllow}), std::vector(3, Kind::kLaunch));
  EXPECT_EQ(Kinds(Due(3), {.policy = kSkip}),
            (std::vector{Kind::kLaunchAlone, Kind::kSkipOverlap, Kind::kSkipOverlap}));
  EXPECT_EQ(Kinds(Due(4), {.policy = kBuffer}),
            (std::vector{Kind::kLaunchAlone, Kind::kWait, Kind::kSkipBehind, Kind::kSkipBehind}));
  EXPECT_EQ(Kinds(Due(3), {.policy = kCancel}),
            (std::vector{Kind::kLaunchAlone, Kind::kCancelPrevious, Kind::kCancelPrevious}));
}

TEST(LaunchPlanTest, BufferedOnesAreSkippedBehindTheFirst) {
  const auto decisions = PlanLaunches(Due(3), {.policy = kBuffer, .run_active = true});
  EXPECT_EQ(decisions[0], LaunchDecision{.kind = Kind::kWait});
  for (size_t i : {1u, 2u}) {
    EXPECT_EQ(decisions[i],
              (LaunchDecision{.kind = Kind::kSkipBehind, .reason = "overlap", .behind = 0}));
  }
}

TEST(LaunchPlanTest, UnwantedLaunchIsNoRunAndBuffersNothing) {
  std::vector<DueLaunch> due = Due(5);
  due[0].wish = Wish::kSkip;
  due[0].reason = "superseded";
  due[1].wish = Wish::kDrop;
  const auto decisions = PlanLaunches(due, {.policy = kBuffer});
  EXPECT_EQ(decisions[0], (LaunchDecision{.kind = Kind::kSkip, .reason = "superseded"}));
  EXPECT_EQ(decisions[1].kind, Kind::kDrop);
  EXPECT_EQ(decisions[2].kind, Kind::kLaunchAlone);
  EXPECT_EQ(decisions[3].kind, Kind::kWait);
  EXPECT_EQ(decisions[4],
            (LaunchDecision{.kind = Kind::kSkipBehind, .reason = "overlap", .behind = 3}));
}

TEST(LaunchPlanTest, LaunchesOfAPausedScheduleStay) {
  std::vector<DueLaunch> due = Due(2);
  for (DueLaunch& launch : due) launch.wish = Wish::kWait;
  for (const auto policy : {kAllow, kSkip, kBuffer, kCancel})
    EXPECT_EQ(Kinds(due, {.policy = policy}), std::vector(2, Kind::kWait));
}

// With jitter an occurrence may be launched before an earlier one, which then is too late.
TEST(LaunchPlanTest, TheLaterOccurrenceStaysWhenLaunchesAreOutOfOrder) {
  std::vector<DueLaunch> due = Due(2);
  std::swap(due[0], due[1]);
  const auto decisions = PlanLaunches(due, {.policy = kCancel, .out_of_order = true});
  EXPECT_EQ(decisions[0].kind, Kind::kCancelPrevious);
  EXPECT_EQ(decisions[1], (LaunchDecision{.kind = Kind::kSkip, .reason = "overlap"}));
}

TEST(LaunchPlanTest, AJudgementIsAWish) {
  using Action = RowJudgement::Action;
  const auto wish = [](Action action) {
    return Judged({.action = action}, {}, absl::UnixEpoch()).wish;
  };
  EXPECT_EQ(wish(Action::kSend), Wish::kLaunch);
  EXPECT_EQ(wish(Action::kMove), Wish::kLaunch) << "it has no row yet that would have to move";
  EXPECT_EQ(wish(Action::kPark), Wish::kWait);
  EXPECT_EQ(wish(Action::kDrop), Wish::kDrop);
  EXPECT_EQ(Judged({.action = Action::kSkip, .reason = "deleted"}, {}, absl::UnixEpoch()).reason,
            "deleted");
}

}  // namespace launch_plan_test
}  // namespace escapement::emitter
