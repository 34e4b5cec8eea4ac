// Schedules go through a change of their zone's rules; each occurrence fires once.

#include "common/tzdata/rederive.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cron/cron_expression.h"
#include "gtest/gtest.h"

namespace escapement::tzdata {
namespace rederive_test {

using cron::OffsetSpan;
using cron::Timetable;
using cron::Zone;

constexpr char kZone[] = "Test/Moved";
constexpr int64_t kHour = 3600, kDay = 24 * kHour;
constexpr int64_t kMiddle = 1'774'749'600;  // 2026-03-29T02:00:00Z
constexpr size_t kAll = std::numeric_limits<size_t>::max();

using Spans = std::vector<OffsetSpan>;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

Timetable TableIn(const std::string& cron, const Zone& zone, cron::DstPolicy policy = {}) {
  cron::TimetableSpec spec;
  spec.cron = cron::ParseCron(cron).value();
  spec.zone = zone;
  spec.policy = policy;
  return Timetable(std::move(spec));
}

Switch SwitchFrom(const Spans& before, absl::Time time) {
  Switch change{.time = time, .old_revision = "2026a", .new_revision = "2026b"};
  change.before[kZone] = RulesOf(Zone::FromSpans(kZone, before), time - absl::Hours(24 * 365),
                                 time + absl::Hours(24 * 3650));
  return change;
}

using Fired = std::map<std::string, std::vector<absl::Time>>;

struct Passage {
  std::string cron;
  cron::DstPolicy policy;
  Spans before, now;
  absl::Time switch_time, emitted_to;
  std::vector<absl::Duration> windows;
};

// The steps of the platform: rows by the former rules up to emitted_to, then the judge, then
// windows.
Fired Run(const Passage& p, absl::Time begin, absl::Time end) {
  const cron::ZoneOverride present(kZone, p.now);
  const MovedZones moved(SwitchFrom(p.before, p.switch_time));
  const MovedZone& zone = *moved.Find(kZone);
  const Timetable before = TableIn(p.cron, Zone::FromSpans(kZone, p.before), p.policy);
  const Timetable now = TableIn(p.cron, Zone::Load(kZone).value(), p.policy);
  Fired fired;
  for (const cron::Occurrence& o : before.Enumerate(begin, p.emitted_to, kAll)) {
    fired[before.IdOf(o)].push_back(o.instant);
  }
  absl::Time from = p.emitted_to;
  for (size_t w = 0; from < end; ++w) {
    const absl::Time to = from + p.windows[w % p.windows.size()];
    const absl::Time read_from = w == 0 ? std::min(from, zone.ReadFrom(p.emitted_to)) : from;
    for (const cron::Occurrence& o : now.Enumerate(read_from, to, kAll)) {
      if (o.instant >= zone.JudgeTo(p.emitted_to) ||
          zone.Emits(zone.Before(now, o), o.instant, p.emitted_to))
        fired[now.IdOf(o)].push_back(o.instant);
    }
    from = to;
  }
  return fired;
}

std::map<std::string, absl::Time> All(const Timetable& timetable, absl::Time begin,
                                      absl::Time end) {
  std::map<std::string, absl::Time> all;
  for (const cron::Occurrence& o : timetable.Enumerate(begin, end, kAll))
    all[timetable.IdOf(o)] = o.instant;
  return all;
}

// Compares with the right result, made from the lists of both timetables.
size_t Check(const Passage& p) {
  const absl::Time begin = p.emitted_to - absl::Hours(8 * 24),
                   end = p.switch_time + absl::Hours(8 * 24);
  const absl::Time judged_from = begin + absl::Hours(72), judged_to = end - absl::Hours(72);
  Fired fired = Run(p, begin, end);
  const auto before = All(TableIn(p.cron, Zone::FromSpans(kZone, p.before), p.policy), begin, end);
  const auto now = All(TableIn(p.cron, Zone::FromSpans(kZone, p.now), p.policy), begin, end);
  const absl::Time decided_to = p.emitted_to;
  std::map<std::string, std::vector<absl::Time>> names;
  for (const auto& [id, instant] : before) names[id].push_back(instant);
  for (const auto& [id, instant] : now) names[id].push_back(instant);
  size_t moved = 0;
  for (const auto& [id, instants] : names) {
    if (*std::min_element(instants.begin(), instants.end()) < judged_from) continue;
    if (*std::max_element(instants.begin(), instants.end()) >= judged_to) continue;
    const auto was = before.find(id), is = now.find(id);
    std::vector<absl::Time> expected;
    if (was != before.end() && was->second < decided_to) {
      expected = {was->second};
    } else if (is != now.end() && (was != before.end() || is->second >= decided_to)) {
      expected = {is->second};
    }
    EXPECT_EQ(fired[id], expected) << id << " of " << p.cron << ", switch " << p.switch_time
                                   << ", emitted to " << p.emitted_to;
    if (was == before.end() || is == now.end() || was->second != is->second) ++moved;
  }
  return moved;
}

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  template <typename T>
  const T& Of(const std::vector<T>& choices) {
    return choices[Between(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

// One way in which governments change rules.
Spans Changed(const Spans& before, Chance& chance) {
  Spans now = before;
  const int64_t near = kMiddle + chance.Between(-2 * kDay, 2 * kDay) / 900 * 900;
  const int64_t by = chance.Of<int64_t>({kHour, -kHour, 1800, -1800, 2 * kHour, -12 * kHour});
  switch (chance.Between(0, 3)) {
    case 0:  // a new standard time from an instant on
    case 1: {
      now.clear();
      int64_t last = before[0].offset;
      for (const OffsetSpan& span : before) {
        if (span.begin < near) now.push_back(span);
        if (span.begin < near) last = span.offset;
      }
      now.push_back({.begin = near, .offset = last + by});
      for (const OffsetSpan& span : before) {
        if (span.begin > near) now.push_back({.begin = span.begin, .offset = span.offset + by});
      }
      return now;
    }
    case 2:  // daylight saving ends for good
      if (now.size() > 1) now.pop_back();
      return now;
    default:  // a change moved to a later or earlier time
      if (now.size() > 1) now.back().begin += chance.Between(-7, 7) * kDay / 2;
      if (now.size() > 2 && now.back().begin <= now[1].begin)
        now.back().begin = now[1].begin + kDay;
      return now;
  }
}

TEST(RederiveTest, EveryOccurrenceFiresOnceHoweverTheRulesChange) {
  size_t moved = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Chance chance(seed);
    Passage p;
    p.cron =
        chance.Of<std::string>({"*/15 * * * *", "30 2 * * *", "0 * * * *", "*/7 1-3 * * *",
                                "0 0 * * *", "10,20,50 2 * * *", "5 */5 * * *", "0 2-3 29,30 3 *"});
    p.policy.gap = static_cast<cron::GapPolicy>(chance.Between(0, 3));
    p.policy.fold = static_cast<cron::FoldPolicy>(chance.Between(0, 3));
    p.before = {{.offset = chance.Of<int64_t>({0, kHour, 19800, -5 * kHour, 37800})}};
    for (int64_t changes = chance.Between(0, 2), i = 0; i < changes; ++i) {
      p.before.push_back(
          {.begin = kMiddle + (i - 1) * 4 * kDay + chance.Between(0, 4 * kDay - 1) / 1800 * 1800,
           .offset = p.before.back().offset + chance.Of<int64_t>({kHour, -kHour, 1800, -1800})});
    }
    p.now = Changed(p.before, chance);
    p.switch_time = At(kMiddle + chance.Between(-2 * kDay, 2 * kDay)) +
                    absl::Microseconds(chance.Between(0, 1) * 500'000);
    // An emitter is a little ahead, or has been away for long.
    p.emitted_to = chance.Between(0, 2) == 0
                       ? p.switch_time - absl::Seconds(chance.Between(0, 3 * kDay))
                       : p.switch_time + absl::Seconds(chance.Between(-20, 3600));
    for (int i = 0; i < 5; ++i)
      p.windows.push_back(absl::Seconds(chance.Between(1, chance.Between(0, 1) ? 600 : 20'000)));
    moved += Check(p);
    if (HasFailure()) {
      std::string text;
      for (const auto* spans : {&p.before, &p.now}) {
        for (const OffsetSpan& span : *spans)
          absl::StrAppend(&text, " ", span.begin, ":", span.offset);
        text += " |";
      }
      ADD_FAILURE() << "seed " << seed << text << " gap " << static_cast<int>(p.policy.gap)
                    << " fold " << static_cast<int>(p.policy.fold);
      return;
    }
  }
  EXPECT_GT(moved, 15'000u);
}

// UTC+1 until the switch, from 12:00Z on UTC+2: 13:00 local becomes 14:00.
TEST(RederiveTest, TheClockIsSetForwardWithoutNotice) {
  const absl::Time noon = At(1'780'315'200);  // 2026-06-01T12:00:00Z
  const Spans before = {{.offset = kHour}};
  const cron::ZoneOverride now(
      kZone, {{.offset = kHour}, {.begin = absl::ToUnixSeconds(noon), .offset = 2 * kHour}});
  const absl::Time switch_time = noon + absl::Minutes(10);  // this machine learns of the change
                                                            // late
  const absl::Time emitted_to = switch_time + absl::Minutes(5);
  const MovedZones moved(SwitchFrom(before, switch_time));
  const MovedZone& zone = *moved.Find(kZone);
  const Timetable timetable = TableIn("* * * * *", Zone::Load(kZone).value());
  std::vector<std::string> emitted;
  for (const cron::Occurrence& o :
       timetable.Enumerate(zone.ReadFrom(emitted_to), emitted_to + absl::Minutes(1), kAll)) {
    if (zone.Emits(zone.Before(timetable, o), o.instant, emitted_to))
      emitted.push_back(absl::FormatTime("%H:%M", o.instant, absl::UTCTimeZone()));
  }
  // The former rules emitted local 13:00 to 13:14. Local 13:15 to 13:59 no longer exist. Local
  // 14:00 and later are due since 12:00Z.
  ASSERT_EQ(emitted.size(), 16u);
  EXPECT_EQ(emitted.front(), "12:00");
  EXPECT_EQ(emitted.back(), "12:15");
}

TEST(RederiveTest, UnmovedZonesAreNotInTheMap) {
  const MovedZones moved(SwitchFrom({{.offset = 0}}, At(kMiddle)));
  EXPECT_TRUE(moved.empty());  // this machine does not know the zone
  EXPECT_EQ(moved.Find("Europe/Berlin"), nullptr);
}

}  // namespace rederive_test
}  // namespace escapement::tzdata
