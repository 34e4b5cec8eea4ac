// The test's own idea of cron: sets of values, every civil minute walked, absl::TimeZone asked
// about each. It shares no code with what it judges.

#ifndef COMMON_CRON_NAIVE_CRON_H_
#define COMMON_CRON_NAIVE_CRON_H_

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/evaluator.h"

namespace escapement::cron {

struct NaiveCron {
  std::string text;
  std::set<int> seconds, minutes, hours, days, months, weekdays;
  bool day_restricted = false, weekday_restricted = false, periodic = false;
};

NaiveCron RandomCron(std::mt19937_64& random);

// Instant → civil time and fold. For zones in which no civil time exists more than twice.
std::map<absl::Time, std::pair<absl::CivilSecond, int>> NaiveOccurrences(const NaiveCron& cron,
                                                                         const absl::TimeZone& zone,
                                                                         const DstPolicy& policy,
                                                                         absl::Time begin,
                                                                         absl::Time end);

// Zones whose changes are unusual, and an instant near one of the changes of a random one of them.
std::string RandomZoneName(std::mt19937_64& random);
absl::Time RandomInstantNearChange(const absl::TimeZone& zone, std::mt19937_64& random);
DstPolicy RandomPolicy(std::mt19937_64& random);

}  // namespace escapement::cron

#endif  // COMMON_CRON_NAIVE_CRON_H_
