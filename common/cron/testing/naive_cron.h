// The test's own model of cron: sets of values, a walk through every civil minute, and a question
// to absl::TimeZone about each. It shares no code with the code under test.

#ifndef COMMON_CRON_TESTING_NAIVE_CRON_H_
#define COMMON_CRON_TESTING_NAIVE_CRON_H_

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/day_set.h"
#include "common/cron/evaluator.h"

namespace escapement::cron {

using NaiveDayItem = std::function<bool(absl::CivilDay)>;

struct NaiveCron {
  std::string text;
  std::set<int> seconds, minutes, hours, days, months, weekdays;
  std::set<int> years;                                 // empty: every year
  std::vector<NaiveDayItem> day_items, weekday_items;  // L, W and # of the two day fields
  bool day_restricted = false, weekday_restricted = false, both_days = false;
  bool second_written = false, periodic = false;
};

// All kinds of items occur.
NaiveCron RandomCron(std::mt19937_64& random);
// An expression for ParseExclusion with many stars, so that it often matches. An absent second is
// every second.
NaiveCron RandomExclusion(std::mt19937_64& random);

// Days on which nothing fires, and where their occurrences go.
struct NaiveDaysOff {
  std::function<bool(absl::CivilDay)> has;
  OnExcluded on_excluded = OnExcluded::kSkip;
  DaySet::Spec spec;  // the same days for the code under test
};
// Dates near `around`, rules, exceptions and other sets. Sometimes most days are off, or all days
// of more than a year.
NaiveDaysOff RandomDaysOff(std::mt19937_64& random, absl::CivilDay around);

bool NaiveDayMatches(const NaiveCron& cron, absl::CivilDay day);

// Maps instants to civil time and fold. For zones in which no civil time exists more than twice.
std::map<absl::Time, std::pair<absl::CivilSecond, int>> NaiveOccurrences(
    const NaiveCron& cron, const absl::TimeZone& zone, const DstPolicy& policy, absl::Time begin,
    absl::Time end, const std::vector<NaiveCron>& exclusions = {},
    const NaiveDaysOff* days_off = nullptr);

// RandomZoneName: a zone with unusual changes. RandomInstantNearChange: an instant near a change of
// the zone, or near the end of a month.
std::string RandomZoneName(std::mt19937_64& random);
absl::Time RandomInstantNearChange(const absl::TimeZone& zone, std::mt19937_64& random);
DstPolicy RandomPolicy(std::mt19937_64& random);

}  // namespace escapement::cron

#endif  // COMMON_CRON_TESTING_NAIVE_CRON_H_
