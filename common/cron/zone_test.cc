#include "common/cron/zone.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace zone_test {

TEST(ZoneTest, OnlyExactNamesOfTheDatabaseAreZones) {
  for (const char* name : {"UTC", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "US/Eastern",
                           "Etc/GMT+5", "GMT"}) {
    const auto zone = Zone::Load(name);
    ASSERT_TRUE(zone.ok()) << zone.status();
    EXPECT_EQ(zone->name(), name);
  }
  for (const char* name : {"",
                           "utc",
                           "asia/kolkata",
                           "Asia/Kolkata ",
                           " UTC",
                           "+05:30",
                           "UTC+1",
                           "Fixed/UTC+01:00:00",
                           "EST5EDT4",
                           "CET-1CEST",
                           ":UTC",
                           "posix/UTC",
                           "right/UTC",
                           "posixrules",
                           "localtime",
                           "/usr/share/zoneinfo/UTC",
                           "../zoneinfo/UTC",
                           "Asia/../UTC",
                           "Asia",
                           "Asia/",
                           "zone.tab",
                           "Mars/Olympus_Mons"}) {
    const auto zone = Zone::Load(name);
    ASSERT_FALSE(zone.ok()) << name;
    EXPECT_EQ(zone.status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(ZoneTest, TheDatabaseVersionCanBeSeen) {
  ASSERT_EQ(TzdataVersion().size(), 5u) << TzdataVersion();  // such as 2026f
  EXPECT_EQ(TzdataVersion().substr(0, 2), "20");
}

TEST(ZoneTest, ClassifiesCivilTimes) {
  const Zone zone = Zone::Load("America/New_York").value();
  const CivilInfo gap = zone.Classify(absl::CivilSecond(2026, 3, 8, 2, 30, 0));
  EXPECT_EQ(gap.kind, CivilKind::kSkipped);
  EXPECT_EQ(FromLocalSeconds(gap.begin), absl::CivilSecond(2026, 3, 8, 2, 0, 0));
  EXPECT_EQ(FromLocalSeconds(gap.end), absl::CivilSecond(2026, 3, 8, 3, 0, 0));
  const CivilInfo overlap = zone.Classify(absl::CivilSecond(2026, 11, 1, 1, 59, 59));
  EXPECT_EQ(overlap.kind, CivilKind::kRepeated);
  ASSERT_EQ(overlap.instants.size(), 2u);
  EXPECT_EQ(overlap.instants[1] - overlap.instants[0], 3600);
  EXPECT_EQ(zone.Classify(absl::CivilSecond(2026, 11, 1, 2, 0, 0)).kind, CivilKind::kUnique);
}

TEST(ZoneTest, WalksTheChangesBothWays) {
  const Zone zone = Zone::Load("Europe/Berlin").value();
  const absl::Time now = absl::FromCivil(absl::CivilSecond(2026, 7, 1), absl::UTCTimeZone());
  const auto next = zone.NextChange(now);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->instant,
            absl::FromCivil(absl::CivilSecond(2026, 10, 25, 1, 0, 0), absl::UTCTimeZone()));
  EXPECT_EQ(next->before, absl::Hours(2));
  EXPECT_EQ(next->after, absl::Hours(1));
  EXPECT_EQ(zone.PrevChange(next->instant)->instant, zone.PrevChange(now)->instant);
  EXPECT_EQ(zone.NextChange(next->instant - absl::Nanoseconds(1))->instant, next->instant);
  EXPECT_GT(zone.NextChange(next->instant)->instant, next->instant);
  EXPECT_FALSE(Zone::Utc().NextChange(now).has_value());
  EXPECT_FALSE(Zone::Utc().PrevChange(now).has_value());
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  std::ifstream file("/usr/share/zoneinfo/tzdata.zi");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "Z") names.push_back(words[1]);
    if (words[0] == "L") names.push_back(words[2]);
  }
  return names;
}

// Compares with absl around every change of every zone, and in the middle of it.
TEST(ZoneTest, AgreesWithTheTimeZoneLibraryAroundEveryChangeOfEveryZone) {
  size_t compared = 0;
  for (const std::string& name : AllNames()) {
    const auto zone = Zone::Load(name);
    ASSERT_TRUE(zone.ok()) << zone.status();
    for (size_t i = 1; i < zone->spans().size(); ++i) {
      const int64_t at = zone->spans()[i].begin;
      const int64_t before = at + zone->spans()[i - 1].offset, after = at + zone->spans()[i].offset;
      if (zone->time_zone().At(absl::FromUnixSeconds(at)).offset != zone->spans()[i].offset)
        ADD_FAILURE() << name;
      if (at > 2'000'000'000 && i % 20 != 0) continue;  // the rule of the far future repeats itself
      for (const int64_t local :
           {before - 1, before, (before + after) / 2, after - 1, after, before + 7200}) {
        const absl::TimeZone::TimeInfo theirs = zone->time_zone().At(FromLocalSeconds(local));
        const CivilInfo ours = zone->Classify(local);
        ++compared;
        switch (theirs.kind) {
          case absl::TimeZone::TimeInfo::UNIQUE:
            ASSERT_EQ(ours.kind, CivilKind::kUnique) << name << " " << FromLocalSeconds(local);
            ASSERT_EQ(absl::FromUnixSeconds(ours.instants[0]), theirs.pre) << name;
            break;
          case absl::TimeZone::TimeInfo::SKIPPED:
            ASSERT_EQ(ours.kind, CivilKind::kSkipped) << name << " " << FromLocalSeconds(local);
            ASSERT_EQ(absl::FromUnixSeconds(zone->spans()[ours.gap].begin), theirs.trans) << name;
            break;
          case absl::TimeZone::TimeInfo::REPEATED:
            ASSERT_EQ(ours.kind, CivilKind::kRepeated) << name << " " << FromLocalSeconds(local);
            ASSERT_EQ(absl::FromUnixSeconds(ours.instants.front()), theirs.pre) << name;
            ASSERT_EQ(absl::FromUnixSeconds(ours.instants.back()), theirs.post) << name;
            break;
        }
      }
    }
  }
  EXPECT_GT(compared, 100'000u);
}

}  // namespace zone_test
}  // namespace escapement::cron
