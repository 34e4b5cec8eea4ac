#include <string>
#include <vector>

#include "common/storage/run_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace run_report_test {

std::vector<uint64_t> IndicesOf(const storage::v1::RunPartRecord& part) {
  std::vector<uint64_t> indices;
  for (const storage::v1::SlowEventRecord& slow : part.slowest()) indices.push_back(slow.index());
  return indices;
}

TEST(SlowestTest, TenSlowestAreKeptInOrder) {
  storage::v1::RunPartRecord part;
  for (uint64_t i = 0; i < 100; ++i) NoteSlow(i, static_cast<int64_t>((i * 37) % 100), part);
  ASSERT_EQ(part.slowest_size(), kSlowestMax);
  for (int i = 0; i < kSlowestMax; ++i) {
    EXPECT_EQ(part.slowest(i).duration_micros(), 99 - i);
    EXPECT_EQ(part.slowest(i).index() * 37 % 100, static_cast<uint64_t>(99 - i));
  }
  const std::string before = part.SerializeAsString();
  NoteSlow(200, 90, part);  // as slow as the tenth
  EXPECT_EQ(part.SerializeAsString(), before);
}

TEST(SlowestTest, RedrivenEventCountsOnceWithItsSlowestEnd) {
  storage::v1::RunPartRecord part;
  NoteSlow(1, 10, part);
  NoteSlow(2, 20, part);
  NoteSlow(3, 30, part);
  NoteSlow(1, 5, part);
  EXPECT_EQ(IndicesOf(part), (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_EQ(part.slowest(2).duration_micros(), 10);
  NoteSlow(1, 25, part);
  EXPECT_EQ(IndicesOf(part), (std::vector<uint64_t>{3, 1, 2}));
  NoteSlow(4, -7, part);
  EXPECT_EQ(part.slowest(3).duration_micros(), 0);
}

TEST(SlowestTest, RangeThatEndedTogetherCountsEachOfItsEvents) {
  storage::v1::RunPartRecord part;
  NoteSlow(IndexSlice{.first = 7, .count = 2}, 10, part);
  EXPECT_EQ(IndicesOf(part), (std::vector<uint64_t>{7, 8}));
  NoteSlow(IndexSlice{.first = 100, .count = 1'000'000'000'000}, 20, part);
  EXPECT_EQ(part.slowest_size(), kSlowestMax);
  EXPECT_EQ(part.slowest(kSlowestMax - 1).duration_micros(), 20);
}

TEST(SlowestTest, SumHasTheSlowestOfAllPartsHoweverOftenTheyAreAdded) {
  storage::v1::RunPartRecord a;
  storage::v1::RunPartRecord b;
  for (uint64_t i = 0; i < 20; ++i) NoteSlow(i, static_cast<int64_t>(i), i % 2 == 0 ? a : b);
  storage::v1::RunPartRecord sum;
  for (const storage::v1::RunPartRecord* part : {&a, &b, &a}) AddSlowest(*part, sum);
  EXPECT_EQ(IndicesOf(sum), (std::vector<uint64_t>{19, 18, 17, 16, 15, 14, 13, 12, 11, 10}));
}

constexpr int64_t kSecond = 1'000'000;

// A run of 100 events in a window from second 1000 to second 2000.
WindowProgress Progress() {
  return {.open_micros = 1000 * kSecond, .close_micros = 2000 * kSecond, .event_count = 100};
}

struct Case {
  const char* what;
  int64_t now = 0;  // seconds; the other times, too
  uint64_t ended = 0;
  WindowState state = WindowState::kOnTrack;
  double required = 0;
  double actual = 0;
  uint64_t expired = 0;
  int64_t first_grant = 0;
  int64_t last_end = 0;
  int64_t complete = 0;
};

void ExpectJudged(WindowProgress run, const Case& c) {
  SCOPED_TRACE(c.what);
  run.ended = c.ended;
  run.expired = c.expired;
  run.first_grant_micros = c.first_grant * kSecond;
  run.last_end_micros = c.last_end * kSecond;
  run.complete_micros = c.complete * kSecond;
  const WindowVerdict verdict = JudgeWindow(run, c.now * kSecond);
  EXPECT_EQ(verdict.state, c.state);
  EXPECT_NEAR(verdict.required_rate, c.required, 1e-4);
  EXPECT_NEAR(verdict.actual_rate, c.actual, 1e-4);
}

TEST(JudgeWindowTest, StatesAndRates) {
  constexpr WindowState kOnTrack = WindowState::kOnTrack;
  constexpr WindowState kAtRisk = WindowState::kAtRisk;
  constexpr WindowState kLate = WindowState::kLate;
  const Case cases[] = {
      {"before the window opens", 500, 0, kOnTrack, 0.1, 0},
      {"in its first tenth", 1099, 0, kOnTrack, 100.0 / 901, 0},
      {"nothing has ended after that", 1100, 0, kAtRisk, 100.0 / 900, 0},
      {"just fast enough", 1500, 50, kOnTrack, 0.1, 0.1},
      {"one event too slow", 1500, 49, kAtRisk, 0.102, 0.098},
      {"faster since the first grant", 1500, 49, kOnTrack, 0.102, 0.49, 0, 1400},
      {"a grant before the window opens", 1500, 50, kOnTrack, 0.1, 0.1, 0, 900},
      {"just before it closes", 1999, 99, kAtRisk, 1, 99.0 / 999},
      {"it closes", 2000, 99, kLate, 0, 0.099},
      {"long after it has closed", 3000, 50, kLate, 0, 0.025},
      {"an event expired", 1500, 60, kLate, 0.08, 0.12, 1},
      {"all have ended, and it is not closed yet", 1800, 100, kOnTrack, 0, 0.2, 0, 0, 1500},
      {"all have ended at an unknown time", 1800, 100, kOnTrack, 0, 0.125},
      {"ended at the close", 2500, 100, kOnTrack, 0, 0.1, 0, 0, 2000, 2000},
      {"ended after the close", 2500, 100, kLate, 0, 100.0 / 1001, 0, 0, 2001, 2001},
      {"closed late by the emitter", 2500, 100, kOnTrack, 0, 0.125, 0, 0, 1800, 2200},
      {"a redriven event ended later", 2500, 100, kOnTrack, 0, 0.125, 0, 0, 2400, 1800},
      {"an event is being redriven", 2500, 99, kOnTrack, 0, 0.12375, 0, 0, 1800, 1800},
      {"ended with an expired event", 2500, 100, kLate, 0, 0.1, 1, 0, 2000, 2000},
  };
  for (const Case& c : cases) ExpectJudged(Progress(), c);
}

TEST(JudgeWindowTest, EvenWindowIsAtRiskOnlyBehindItsPace) {
  constexpr WindowState kOnTrack = WindowState::kOnTrack;
  constexpr WindowState kAtRisk = WindowState::kAtRisk;
  constexpr WindowState kLate = WindowState::kLate;
  WindowProgress run = Progress();
  run.even = true;
  // Event i has its place at second 1000 + 10 i, and 10 s more to end.
  const Case cases[] = {
      {"in its first tenth", 1099, 0, kOnTrack, 100.0 / 901, 0},
      {"on pace", 1509, 50, kOnTrack, 50.0 / 491, 50.0 / 509},
      {"the next place has come", 1510, 50, kAtRisk, 50.0 / 490, 50.0 / 510},
      {"behind, but fast since the first grant", 1510, 50, kOnTrack, 50.0 / 490, 0.5, 0, 1410},
      {"the last event is under way", 1999, 99, kOnTrack, 1, 99.0 / 999},
      {"it has not ended in its 10 s", 2000, 99, kAtRisk, 0, 0.099},
      {"late only 10 s after the close", 2010, 99, kLate, 0, 99.0 / 1010},
      {"ended soon after the close", 2500, 100, kOnTrack, 0, 100.0 / 1010, 0, 0, 2010, 2010},
      {"ended later", 2500, 100, kLate, 0, 100.0 / 1011, 0, 0, 2011, 2011},
      {"an event expired", 1500, 60, kLate, 0.08, 0.12, 1},
  };
  for (const Case& c : cases) ExpectJudged(run, c);
}

TEST(JudgeWindowTest, ShortEvenWindowHasASecondForEachEvent) {
  const WindowProgress run{
      .open_micros = 0, .close_micros = 10 * kSecond, .even = true, .event_count = 10, .ended = 4};
  EXPECT_EQ(JudgeWindow(run, 5 * kSecond - 1).state, WindowState::kOnTrack);
  EXPECT_EQ(JudgeWindow(run, 5 * kSecond).state, WindowState::kAtRisk);
}

TEST(JudgeWindowTest, LargestRunsAreJudgedExactly) {
  WindowProgress run{.open_micros = 0,
                     .close_micros = int64_t{366} * 86'400 * kSecond,
                     .even = true,
                     .event_count = 1'000'000'000'000};
  const int64_t slack = run.close_micros / 100;
  run.ended = run.event_count / 2;
  EXPECT_EQ(JudgeWindow(run, run.close_micros / 2 + slack - 1).state, WindowState::kOnTrack);
  EXPECT_EQ(JudgeWindow(run, run.close_micros / 2 + slack).state, WindowState::kAtRisk);
}

}  // namespace run_report_test
}  // namespace escapement
