#include <string>
#include <vector>

#include "common/cron/timetable.h"
#include "gtest/gtest.h"
#include "services/master/runs/run_listing.h"

namespace escapement::master {
namespace occurrence_ranges_test {

cron::Zone Load(const std::string& name) { return *cron::Zone::Load(name); }

absl::Time Utc(int month, int day, int hour, int minute = 0) {
  return absl::FromCivil(absl::CivilSecond(2026, month, day, hour, minute, 0), absl::UTCTimeZone());
}

bool Holds(const std::vector<TextRange>& ranges, const std::string& text) {
  for (const TextRange& range : ranges) {
    if (range.begin <= text && text < range.end) return true;
  }
  return false;
}

TEST(OccurrenceRanges, InUtcTheyAreTheSpanItself) {
  const auto ranges = OccurrenceRanges(Utc(11, 25, 12), Utc(11, 25, 13), {Load("UTC")});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].begin, "20261125T120000");
  EXPECT_EQ(ranges[0].end, "20261125T130001");
}

TEST(OccurrenceRanges, AZoneFarFromUtcHasARangeOfItsOwn) {
  const auto ranges = OccurrenceRanges(Utc(11, 25, 12), Utc(11, 25, 12, 1), {Load("Asia/Kolkata")});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, "20261125T120000");
  EXPECT_TRUE(Holds(ranges, "20261125T173000-0-Asia~Kolkata"));
  EXPECT_FALSE(Holds(ranges, "20261125T150000-0-Asia~Kolkata"));
}

TEST(OccurrenceRanges, WithoutZonesAnyZoneIsAllowedFor) {
  const auto ranges = OccurrenceRanges(Utc(11, 25, 12), Utc(11, 25, 12, 1), {});
  for (const char* text : {"20261125T000000-0-Etc~GMT+12", "20261126T020000-0-Pacific~Kiritimati",
                           "20261125T120030.000000Z"})
    EXPECT_TRUE(Holds(ranges, text)) << text;
}

// Over both changes of the clocks, and with every rule for skipped and repeated times.
TEST(OccurrenceRanges, HoldEveryOccurrenceOfATimetable) {
  for (const char* name : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"}) {
    for (const auto& [from, to] :
         {std::pair(Utc(3, 1, 0), Utc(4, 10, 0)), std::pair(Utc(10, 1, 0), Utc(11, 5, 0))}) {
      for (const cron::GapPolicy gap :
           {cron::GapPolicy::kAuto, cron::GapPolicy::kFireAfter, cron::GapPolicy::kShift}) {
        cron::TimetableSpec spec;
        spec.cron = *cron::ParseCron("0 */7 * * * *");
        spec.zone = Load(name);
        spec.policy.gap = gap;
        spec.policy.fold = cron::FoldPolicy::kBoth;
        const cron::Timetable timetable(spec);
        for (absl::Time begin = from; begin < to; begin += absl::Minutes(97)) {
          const absl::Time end = begin + absl::Minutes(97);
          const auto ranges = OccurrenceRanges(begin, end, {Load(name)});
          for (const auto& occurrence : timetable.Enumerate(begin, end, 100))
            ASSERT_TRUE(Holds(ranges, timetable.IdOf(occurrence))) << timetable.IdOf(occurrence);
        }
      }
    }
  }
}

}  // namespace occurrence_ranges_test
}  // namespace escapement::master
