// The checker of the store's clock finds planted breaches. Due times are converted to the store's
// time.

#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/record/history.h"
#include "tests/simulation/record/store_observer.h"

namespace escapement::simulation {
namespace clock_checkers_test {

// Commits a second apart, of a store whose clock is right.
History Steady(int commits) {
  History history;
  history.begin = At(0);
  history.end = At(commits);
  for (int i = 0; i < commits; ++i) {
    Commit commit;
    commit.seq = static_cast<uint64_t>(i);
    commit.store_time = At(i) - absl::Milliseconds(1);
    commit.time = At(i);
    history.commits.push_back(commit);
  }
  return history;
}

// From commit `from` on the store's clock is ahead by `by`.
History Leaping(absl::Duration by, size_t from) {
  History history = Steady(10);
  for (size_t i = from; i < history.commits.size(); ++i) history.commits[i].store_time += by;
  return history;
}

TEST(ClockCheckers, ASteadyClockIsWell) { EXPECT_TRUE(CheckClock(Steady(10)).empty()); }

TEST(ClockCheckers, AClockThatGoesBackIsNot) {
  EXPECT_EQ(CheckClock(Leaping(-absl::Seconds(2), 5)).size(), 1u);
}

TEST(ClockCheckers, ALeapIsWellOnlyWhereItWasConfirmed) {
  History history = Leaping(absl::Hours(1), 5);
  EXPECT_EQ(CheckClock(history).size(), 1u);
  history.clock_confirmed = {At(4.5)};
  EXPECT_TRUE(CheckClock(history).empty());
}

TEST(ClockCheckers, LeapOfMinutesMayFollowAStepThatHasLasted) {
  History history = Leaping(absl::Minutes(2), 7);
  EXPECT_EQ(CheckClock(history).size(), 1u);
  history.clock_set = {{At(2.5), absl::Minutes(2)}};  // set less than five seconds before
  EXPECT_EQ(CheckClock(history).size(), 1u);
  history.clock_set = {{At(1.5), absl::Minutes(2)}};
  EXPECT_TRUE(CheckClock(history).empty());
  history.clock_set.push_back({At(5), absl::ZeroDuration()});  // it was set back too early
  EXPECT_EQ(CheckClock(history).size(), 1u);
  History day = Leaping(absl::Hours(24), 7);
  day.clock_set = {{At(1.5), absl::Hours(24)}};
  EXPECT_EQ(CheckClock(day).size(), 1u);
  day.clock_set[0].synchronised = true;  // but other machines show another time
  EXPECT_EQ(CheckClock(day).size(), 1u);
  day.clock_set[0].everywhere = true;
  EXPECT_TRUE(CheckClock(day).empty());
}

TEST(ClockCheckers, NothingIsPlannedWhileTheClockIsHeld) {
  History history = Steady(10);
  history.commits[3].clock_hold = true;
  history.commits[6].clock_hold = false;
  history.commits[7].checkpoints = {{"planned_to/0", 0}};
  history.commits[4].checkpoints = {{"emitted_to/0", 0}};
  EXPECT_TRUE(CheckClock(history).empty());
  history.commits[5].checkpoints = {{"planned_to/0", 0}};
  EXPECT_EQ(CheckClock(history).size(), 1u);
}

TEST(ClockCheckers, EarlyIsWhatComesBeforeItsTimeByTheStoresClock) {
  History history = Leaping(absl::Seconds(5), 7);
  ScheduleChange made;
  made.called = At(0);
  made.answered = At(0.5);
  made.definition = {.cron = "10 * * * * *", .zone = "UTC"};
  history.schedules = {{.id = "s", .uid = "u", .changes = {made}, .triggered = {}}};
  Receipt receipt;
  receipt.uid = "u";
  receipt.occurrence = "20260301T000010-0-UTC";
  receipt.nominal = receipt.launch = At(10);
  receipt.time = At(8);  // the store's clock shows 13 by then
  history.receipts = {receipt};
  EXPECT_EQ(CheckEarly(history).size(), 1u);
  EXPECT_TRUE(CheckEarly(InStoreTime(history)).empty());
  history.receipts[0].time = At(3);
  EXPECT_EQ(CheckEarly(InStoreTime(history)).size(), 1u);
}

}  // namespace clock_checkers_test
}  // namespace escapement::simulation
