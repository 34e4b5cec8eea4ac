#include "tests/bench/figures/figures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::bench {
namespace figures_test {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json Only(const Figures& figures) {
  return nlohmann::json::parse(figures.Json())["figures"].at(0);
}

TEST(FiguresTest, TheMedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  Figures figures;
  for (const double value : {40.0, 10.0, 30.0, 20.0}) figures.Add("rate", "/s", value);
  EXPECT_EQ(Only(figures)["median"], 25.0);
}

TEST(FiguresTest, AFigureThatMissesItsBoundIsToldAndIsNoFailure) {
  Figures figures;
  for (const double value : {1.0, 9.0, 2.0}) figures.Add("late", "ms", value, {.at_most = 1.5});
  EXPECT_EQ(Only(figures)["kept"], false);
  EXPECT_THAT(figures.Table(), HasSubstr("MISSED"));
  EXPECT_TRUE(figures.complete());
}

TEST(FiguresTest, MedianIsJudgedNotTheBestOrTheWorst) {
  Figures figures;
  for (const double value : {1.0, 900.0, 2.0}) figures.Add("late", "ms", value, {.at_most = 2});
  EXPECT_EQ(Only(figures)["kept"], true);
}

TEST(FiguresTest, TheRatioIsOfTheMedians) {
  Figures figures;
  for (const double value : {30.0, 50.0, 1000.0}) figures.Add("rate", "/s", value);
  for (const double value : {100.0, 1.0, 200.0}) figures.AddRaw("rate", "/s", "bare", value);
  EXPECT_EQ(Only(figures)["ratio"], 0.5);
  EXPECT_EQ(Only(figures)["raw_name"], "bare");
}

TEST(FiguresTest, ReachesPartOfLowerRawLimitButMissesBoundOnSlowMachine) {
  Figures figures;
  figures.Add("rate", "/s", 60, {.at_least = 100, .of_raw = 0.5});
  figures.AddRaw("rate", "/s", "bare", 120);
  EXPECT_EQ(Only(figures)["kept"], false);
  EXPECT_EQ(Only(figures)["of_raw_kept"], true);
  EXPECT_THAT(figures.Table(), HasSubstr("MISSED, 0.50 of the raw limit kept"));
}

TEST(FiguresTest, ALesserPartOfTheRawLimitIsMissedToo) {
  Figures figures;
  figures.Add("rate", "/s", 60, {.at_least = 100, .of_raw = 0.5});
  figures.AddRaw("rate", "/s", "bare", 121);
  EXPECT_EQ(Only(figures)["of_raw_kept"], false);
  EXPECT_THAT(figures.Table(), HasSubstr("MISSED"));
  EXPECT_THAT(figures.Table(), Not(HasSubstr("kept")));
}

TEST(FiguresTest, AFigureThatCouldNotBeMeasuredIsNoneThatKeepsItsBound) {
  Figures figures;
  figures.Add("rate", "/s", 7);
  figures.AddFailure("late", absl::InternalError("no answer"));
  EXPECT_FALSE(figures.complete());
  EXPECT_THAT(figures.Table(), HasSubstr("FAILED: INTERNAL: no answer"));
  EXPECT_THAT(figures.Table(), Not(HasSubstr("kept")));
}

TEST(FiguresTest, ARawLimitAloneHasNoRatio) {
  Figures figures;
  figures.AddRaw("rate", "/s", "bare", 100);
  EXPECT_FALSE(Only(figures).contains("ratio"));
}

}  // namespace figures_test
}  // namespace escapement::bench
