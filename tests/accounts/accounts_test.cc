// Three hours of 2,000 schedules around changes of clocks. `tools/dev accounts` lives a day of
// 100,000.

#include <set>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/accounts/day.h"

namespace escapement::accounts {
namespace accounts_test {

// Rows of five kinds are lost at the end (Day::LoseRows).
constexpr size_t kLost = 5;

void Live(uint64_t seed, absl::CivilMinute start) {
  DayOptions options;
  options.seed = seed;
  options.schedules = 2000;
  options.start = absl::FromCivil(start, absl::UTCTimeZone());
  options.changes = 0.2;
  options.outage_every = absl::Minutes(30);
  Day day(options);
  const Account account = day.Run();
  EXPECT_EQ(account.breach_count, 0) << absl::StrJoin(account.breaches, "\n");
  EXPECT_TRUE(account.unaccounted.empty());
  EXPECT_EQ(account.unjudged, 0);
  for (const char* result : {"ON_TIME", "LATE", "FAILED", "PENDING", "SKIPPED paused",
                             "SKIPPED misfire", "SKIPPED overlap"})
    EXPECT_TRUE(account.counts.contains(result)) << result;

  const std::set<Place> lost = day.LoseRows();
  EXPECT_EQ(lost.size(), kLost);
  const Account after = day.Ask(day.start());
  EXPECT_EQ(after.unaccounted, lost);
  EXPECT_EQ(after.breach_count, static_cast<int64_t>(kLost)) << absl::StrJoin(after.breaches, "\n");
}

TEST(AccountsTest, AccountsEqualTheOracleWhileClocksGoForward) {
  Live(1, absl::CivilMinute(2026, 3, 8, 5, 30));  // New York, at 07:00
}

TEST(AccountsTest, AccountsEqualTheOracleWhileClocksGoBack) {
  Live(2, absl::CivilMinute(2026, 10, 24, 23, 30));  // Berlin, at 01:00
}

}  // namespace accounts_test
}  // namespace escapement::accounts
