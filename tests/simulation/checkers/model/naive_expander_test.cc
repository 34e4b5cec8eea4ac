#include "tests/simulation/checkers/model/naive_expander.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::simulation {
namespace naive_expander_test {

absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) std::abort();
  return time;
}

std::vector<std::string> Ids(absl::string_view cron, absl::string_view zone,
                             const std::string& begin, const std::string& end) {
  std::vector<std::string> ids;
  for (const ExpectedOccurrence& o : ExpandNaively(cron, zone, At(begin), At(end)))
    ids.push_back(o.id);
  return ids;
}

TEST(NaiveExpander, WalksSecondsInAHalfOpenWindow) {
  EXPECT_EQ(Ids("*/20 * * * * *", "UTC", "2026-03-01T00:00:00Z", "2026-03-01T00:01:00Z"),
            (std::vector<std::string>{"20260301T000000-0-UTC", "20260301T000020-0-UTC",
                                      "20260301T000040-0-UTC"}));
}

TEST(NaiveExpander, ReadsTheExpressionInItsZone) {
  const auto found = ExpandNaively("30 9 * * *", "Asia/Kolkata", At("2026-03-01T00:00:00Z"),
                                   At("2026-03-02T00:00:00Z"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].instant, At("2026-03-01T04:00:00Z"));
  EXPECT_EQ(found[0].id, "20260301T093000-0-Asia~Kolkata");
}

TEST(NaiveExpander, AFixedTimeInAGapFiresAfterItAndARhythmSkipsIt) {
  // Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC.
  const auto fixed = ExpandNaively("30 2 * * *", "Europe/Berlin", At("2026-03-29T00:00:00Z"),
                                   At("2026-03-29T04:00:00Z"));
  ASSERT_EQ(fixed.size(), 1u);
  EXPECT_EQ(fixed[0].instant, At("2026-03-29T01:00:00Z"));
  EXPECT_EQ(
      Ids("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T04:00:00Z").size(),
      0u);
}

TEST(NaiveExpander, AFixedTimeInAnOverlapFiresOnceAndARhythmTwice) {
  // Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
  const auto fixed = ExpandNaively("30 2 * * *", "Europe/Berlin", At("2026-10-25T00:00:00Z"),
                                   At("2026-10-25T04:00:00Z"));
  ASSERT_EQ(fixed.size(), 1u);
  EXPECT_EQ(fixed[0].instant, At("2026-10-25T00:30:00Z"));
  EXPECT_EQ(Ids("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T04:00:00Z"),
            (std::vector<std::string>{
                "20261025T020000-0-Europe~Berlin", "20261025T023000-0-Europe~Berlin",
                "20261025T020000-1-Europe~Berlin", "20261025T023000-1-Europe~Berlin"}));
}

TEST(NaiveExpander, EitherOfTwoRestrictedDayFieldsMatches) {
  // 1 March 2026 is a Sunday.
  EXPECT_EQ(Ids("0 0 3 * 1", "UTC", "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z"),
            (std::vector<std::string>{"20260302T000000-0-UTC", "20260303T000000-0-UTC"}));
}

}  // namespace naive_expander_test
}  // namespace escapement::simulation
