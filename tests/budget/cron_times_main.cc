// Prints how many nanoseconds the cron evaluator takes for common and for the worst expressions.
// Exits with 1 if a time is far above its bound. tools/dev profile cron runs it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/launch_expression.h"

namespace escapement::cron {
namespace {

constexpr double kCommonMax = 20'000;  // nanoseconds
constexpr double kWorstMax = 1'000'000;

int beyond = 0;

void Judge(const std::string& text, double nanos, double nanos_max) {
  if (nanos <= nanos_max) return;
  ++beyond;
  std::printf("BEYOND ITS BOUND of %.0f ns: %s\n", nanos_max, text.c_str());
}

// Nanoseconds a call, in the fastest of some rounds: other work on the machine can only add time.
template <typename Call>
double Nanoseconds(const Call& call) {
  double best = 1e18;
  for (int round = 0; round < 7; ++round) {
    int calls = 0;
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::duration<double, std::nano> took(0);
    while (took.count() < 1e6) {
      for (int i = 0; i < 10; ++i) call();
      calls += 10;
      took = std::chrono::steady_clock::now() - begin;
    }
    best = std::min(best, took.count() / calls);
  }
  return best;
}

volatile int64_t sink;

double NextCost(const std::string& text, const char* zone_name, const DstPolicy& policy,
                absl::Time from, const std::vector<std::string>& excluded = {}) {
  const CronExpression e = ParseCron(text).value();
  const Zone zone = Zone::Load(zone_name).value();
  std::vector<CronExpression> exclusions;
  for (const std::string& x : excluded) exclusions.push_back(ParseExclusion(x).value());
  return Nanoseconds([&] {
    const auto found = FirstAfter(e, zone, policy, from, {.exclusions = exclusions});
    sink = found ? absl::ToUnixSeconds(found->instant) : 0;
  });
}

// The mean over successive calls that begin in 2026.
double MeanNextCost(const CronExpression& e, const char* zone_name) {
  const Zone zone = Zone::Load(zone_name).value();
  const absl::Time begin = absl::FromUnixSeconds(1'790'000'000);
  absl::Time t = begin;
  return Nanoseconds([&] {
    const auto found = FirstAfter(e, zone, {}, t);
    t = found ? found->instant : begin;
  });
}

double WorstNextCost(const std::string& text, const char* zone_name, const DstPolicy& policy,
                     const std::vector<std::string>& excluded = {}) {
  double worst = 0;
  for (const int year : {1970, 1999, 2026, 2088, 2150}) {
    worst = std::max(
        worst, NextCost(text, zone_name, policy,
                        absl::FromCivil(absl::CivilYear(year), absl::UTCTimeZone()), excluded));
  }
  return worst;
}

void MeasureCommon() {
  for (const char* text :
       {"* * * * *", "*/15 * * * *", "0 3,6,9 * * *", "30 9 * * MON-FRI", "0 0 1 * *", "0 0 L * *",
        "0 8 15W * *", "0 10 * MAR,JUN TUE#2", "0 0 25 12 *", "*/10 * * * * *", "*/5 9-17 * * 1-5",
        "0 0 13 * FRI", "0 12 LW * *", "0 0 0 1 1 * 2030/5"}) {
    const CronExpression e = ParseCron(text).value();
    const double next = MeanNextCost(e, "America/New_York");
    const double parse = Nanoseconds([&] { sink = ParseCron(text)->minutes; });
    const absl::CivilSecond civil = FirstAtOrAfter(e, Zone::Utc(), {}, absl::UnixEpoch())->civil;
    const double place = Nanoseconds([&] { sink = CanonicalPlace(e, civil).hour; });
    const double describe = Nanoseconds([&] { sink = Describe(e).size(); });
    std::printf("%-24s next %6.0f ns  parse %6.0f ns  place %6.0f ns  describe %6.0f ns\n", text,
                next, parse, place, describe);
    Judge(text, next, kCommonMax);
  }
}

void MeasureWorst() {
  const DstPolicy shift{.gap = GapPolicy::kShift, .fold = FoldPolicy::kFirst};
  const DstPolicy skip{.gap = GapPolicy::kSkip, .fold = FoldPolicy::kLast};
  const DstPolicy after{.gap = GapPolicy::kFireAfter, .fold = FoldPolicy::kBoth};
  std::string every_item = "0 0 1W";
  for (int n = 2; n <= 31; ++n) every_item += "," + std::to_string(n) + "W";
  for (int n = 0; n <= 30; ++n) every_item += ",L-" + std::to_string(n) + "W";
  every_item += " * +SUN,SAT";
  const std::pair<std::string, DstPolicy> cases[] = {
      {"0 0 31 2 *", {}},                // never fires
      {"0 0 29 2 +MON#5", {}},           // every 28 years
      {"30 2 29 2 +SUN", shift},         // every 28 years
      {"0 0 0 29 2 * 2196", {}},         // only the last possible instant
      {"0 30 2 29 2 +SUN 2199", shift},  // never fires
      {every_item, {}},                  // never fires, but rules no month out
      {"30 2 8-14 3 +SUN", skip},        // falls into the gap each year
      {"0 30 2 * 3 * */2", skip},        //
      {"30 2 31 3,5 +SUN", after},       // falls into the gap in some years
      {"30 2 LW * +SUN", shift},         // never fires
      {"59 59 23 31 12 * 2199", {}},     // only the last second
      {"0 30 2 31W * * 2199", shift},
  };
  for (const char* zone : {"America/New_York", "Africa/Casablanca", "Antarctica/Troll"}) {
    for (const auto& [text, policy] : cases) {
      const double next = WorstNextCost(text, zone, policy);
      std::printf("%-20s %-24s next %8.0f ns\n", zone, text.substr(0, 24).c_str(), next);
      Judge(text, next, kWorstMax);
    }
  }
  std::vector<std::string> many;
  for (int i = 0; i < 32; ++i)
    many.push_back("* " + std::to_string(i % 24) + " " + std::to_string(i % 28 + 1) + ",*/" +
                   std::to_string(i % 5 + 1) + " * *");
  many.push_back("* * * * *");
  for (const auto& excluded : {std::vector<std::string>{"* * * * *"},
                               std::vector<std::string>{"0-29 * * * *", "30-59 * * * *"}, many}) {
    const double next = WorstNextCost("* * * * * *", "America/New_York", {}, excluded);
    std::printf("every second, all excluded by %zu  next %8.0f ns\n", excluded.size(), next);
  }
}

}  // namespace

int Run() {
  MeasureCommon();
  MeasureWorst();
  return beyond == 0 ? 0 : 1;
}

}  // namespace escapement::cron

int main() { return escapement::cron::Run(); }
