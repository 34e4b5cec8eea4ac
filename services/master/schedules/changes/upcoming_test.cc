#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/master/schedules/changes/resume_decision.h"

namespace escapement::master {
namespace upcoming_test {

// Every so often, from 1970 on.
cron::Timetable Table(absl::Duration every, const std::vector<std::string>& exclusions) {
  cron::TimetableSpec spec;
  spec.every = every;
  spec.anchor = absl::UnixEpoch();
  for (const std::string& text : exclusions) spec.exclusions.push_back(*cron::ParseExclusion(text));
  return cron::Timetable(std::move(spec));
}

TEST(Upcoming, TheyAreThoseOfTheTimetable) {
  const absl::Time from = absl::FromUnixSeconds(1'800'000'000);
  for (const std::vector<std::string>& exclusions :
       {std::vector<std::string>{}, {"* 1-3 * * *", "*/2 * * * *"}}) {
    const cron::Timetable table = Table(absl::Minutes(1), exclusions);
    for (const size_t max : {1, 64, 65, 2500}) {
      const Upcoming upcoming = UpcomingOf(table, from, max, 1'000'000);
      EXPECT_TRUE(upcoming.complete);
      EXPECT_EQ(upcoming.occurrences, table.Enumerate(from, absl::InfiniteFuture(), max));
    }
  }
}

TEST(Upcoming, TheEndOfTheTimetableIsNoLackOfCandidates) {
  cron::TimetableSpec spec = Table(absl::Hours(1), {"* 1-3 * * *"}).spec();
  spec.end = absl::FromUnixSeconds(10 * 3600);
  const cron::Timetable table(std::move(spec));
  const Upcoming upcoming = UpcomingOf(table, absl::UnixEpoch(), 100, 1000);
  EXPECT_TRUE(upcoming.complete);
  EXPECT_EQ(upcoming.occurrences.size(), 7u);
}

TEST(Upcoming, ItStopsWhereTooManyAreExcluded) {
  const cron::Timetable table = Table(absl::Seconds(2), {"*/2 * 1-23 * * *"});
  const Upcoming upcoming = UpcomingOf(table, absl::UnixEpoch(), 10'000, 20'000);
  EXPECT_FALSE(upcoming.complete);
  EXPECT_EQ(upcoming.occurrences.size(), 1800u);
  // A cron expression is not hindered by what is excluded.
  cron::TimetableSpec spec = table.spec();
  spec.every = absl::ZeroDuration();
  spec.cron = *cron::ParseCron("*/2 * * * * *");
  EXPECT_EQ(UpcomingOf(cron::Timetable(spec), absl::UnixEpoch(), 10'000, 20'000).occurrences.size(),
            10'000u);
}

}  // namespace upcoming_test
}  // namespace escapement::master
