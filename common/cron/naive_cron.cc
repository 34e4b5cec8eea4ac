#include "common/cron/naive_cron.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace escapement::cron {
namespace {

int Below(std::mt19937_64& random, int bound) { return static_cast<int>(random() % bound); }

// One item of a field with the values [low, high]; `max` is the MAX of a/n (7 in day-of-week, which
// is 0 again).
std::string RandomItem(std::mt19937_64& random, int low, int high, int max, std::set<int>& values) {
  const int size = high - low + 1;
  const int a = low + Below(random, size), b = low + Below(random, size),
            n = 1 + Below(random, std::min(max, 20));
  const auto walk = [&](int first, int count, int step) {
    for (int i = 0; i < count; i += step) values.insert(low + (first - low + i) % size);
  };
  const int length = (b - a + size) % size + 1;
  switch (Below(random, 6)) {
    case 0:
      walk(a, length, 1);
      return absl::StrCat(a, "-", b);
    case 1:
      walk(a, length, n);
      return absl::StrCat(a, "-", b, "/", n);
    case 2:
      walk(a, max - a + 1, n);
      return absl::StrCat(a, "/", n);
    case 3:
      walk(low, size, n);
      return absl::StrCat("*/", n);
    default:
      values.insert(a);
      return absl::StrCat(a);
  }
}

// `stars` of 8 are "*".
std::string RandomField(std::mt19937_64& random, int low, int high, int max, int stars,
                        std::set<int>& values) {
  if (Below(random, 8) < stars) {
    for (int v = low; v <= high; ++v) values.insert(v);
    return "*";
  }
  std::string text = RandomItem(random, low, high, max, values);
  while (Below(random, 3) == 0)
    absl::StrAppend(&text, ",", RandomItem(random, low, high, max, values));
  return text;
}

bool HasRhythm(const std::string& field) { return field.find_first_of("*/") != std::string::npos; }

bool DayMatches(const NaiveCron& cron, absl::CivilDay day) {
  if (!cron.months.contains(day.month())) return false;
  const int weekday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;  // absl counts from Monday
  const bool by_day = cron.days.contains(day.day()), by_weekday = cron.weekdays.contains(weekday);
  if (cron.day_restricted && cron.weekday_restricted) return by_day || by_weekday;
  return by_day && by_weekday;
}

}  // namespace

NaiveCron RandomCron(std::mt19937_64& random) {
  NaiveCron cron;
  std::string second;
  if (Below(random, 3) == 0) second = RandomField(random, 0, 59, 59, 0, cron.seconds);
  if (second.empty()) cron.seconds = {0};
  const std::string minute = RandomField(random, 0, 59, 59, 1, cron.minutes);
  const std::string hour = RandomField(random, 0, 23, 23, 3, cron.hours);
  const std::string day = RandomField(random, 1, 31, 31, 5, cron.days);
  const std::string month = RandomField(random, 1, 12, 12, 6, cron.months);
  const std::string weekday = RandomField(random, 0, 6, 7, 5, cron.weekdays);
  cron.day_restricted = day != "*";
  cron.weekday_restricted = weekday != "*";
  cron.periodic = HasRhythm(second) || HasRhythm(minute) || HasRhythm(hour) ||
                  cron.seconds.size() == 60 || cron.minutes.size() == 60 || cron.hours.size() == 24;
  cron.text = absl::StrCat(second, second.empty() ? "" : " ", minute, " ", hour, " ", day, " ",
                           month, " ", weekday);
  return cron;
}

std::map<absl::Time, std::pair<absl::CivilSecond, int>> NaiveOccurrences(const NaiveCron& cron,
                                                                         const absl::TimeZone& zone,
                                                                         const DstPolicy& policy,
                                                                         absl::Time begin,
                                                                         absl::Time end) {
  std::map<absl::Time, std::pair<absl::CivilSecond, int>> exact, moved;
  const auto put = [&](absl::Time t, absl::CivilSecond civil, int fold) {
    if (t >= begin && t < end) exact[t] = {civil, fold};
  };
  // Civil times ascend, so the last one to be moved to an instant is the latest nominal one.
  const auto move = [&](absl::Time t, absl::CivilSecond civil) {
    if (t >= begin && t < end) moved[t] = {civil, 0};
  };
  const auto visit = [&](absl::CivilSecond civil) {
    const absl::TimeZone::TimeInfo info = zone.At(civil);
    const absl::Duration change = info.pre - info.post;
    const bool rhythm = cron.periodic || change > absl::Hours(3) || change < -absl::Hours(3);
    if (info.kind == absl::TimeZone::TimeInfo::UNIQUE) {
      put(info.pre, civil, 0);
    } else if (info.kind == absl::TimeZone::TimeInfo::SKIPPED) {
      const GapPolicy automatic = rhythm ? GapPolicy::kSkip : GapPolicy::kFireAfter;
      const GapPolicy gap = policy.gap == GapPolicy::kAuto ? automatic : policy.gap;
      if (gap == GapPolicy::kFireAfter) move(info.trans, civil);
      if (gap == GapPolicy::kShift) move(info.pre, civil);
    } else {
      const OverlapPolicy automatic = rhythm ? OverlapPolicy::kBoth : OverlapPolicy::kFirst;
      const OverlapPolicy overlap =
          policy.overlap == OverlapPolicy::kAuto ? automatic : policy.overlap;
      if (overlap != OverlapPolicy::kLast) put(info.pre, civil, 0);
      if (overlap != OverlapPolicy::kFirst) put(info.post, civil, 1);
    }
  };
  absl::CivilMinute minute(absl::ToCivilSecond(begin - absl::Hours(50), absl::UTCTimeZone()));
  const absl::CivilMinute last(absl::ToCivilSecond(end + absl::Hours(50), absl::UTCTimeZone()));
  for (; minute <= last; ++minute) {
    if (!cron.minutes.contains(minute.minute()) || !cron.hours.contains(minute.hour())) continue;
    if (!DayMatches(cron, absl::CivilDay(minute))) continue;
    for (int second : cron.seconds) visit(absl::CivilSecond(minute) + second);
  }
  exact.merge(moved);  // keeps those that exist
  return exact;
}

std::string RandomZoneName(std::mt19937_64& random) {
  static const auto* const zones = new std::vector<std::string>{"America/New_York",
                                                                "Europe/Berlin",
                                                                "Pacific/Apia",
                                                                "Australia/Lord_Howe",
                                                                "Africa/Casablanca",
                                                                "Asia/Kolkata",
                                                                "America/St_Johns",
                                                                "Antarctica/Troll",
                                                                "Pacific/Kwajalein",
                                                                "Africa/Monrovia",
                                                                "America/Caracas",
                                                                "Pacific/Enderbury",
                                                                "Europe/Dublin",
                                                                "Africa/Cairo",
                                                                "Asia/Gaza",
                                                                "America/Sao_Paulo",
                                                                "Asia/Kathmandu",
                                                                "Asia/Tehran",
                                                                "UTC"};
  return (*zones)[random() % zones->size()];
}

absl::Time RandomInstantNearChange(const absl::TimeZone& zone, std::mt19937_64& random) {
  absl::Time t = absl::FromCivil(absl::CivilDay(1971, 1, 1), absl::UTCTimeZone()) +
                 absl::Hours(24) * Below(random, 46000);
  absl::TimeZone::CivilTransition change;
  const int kind = Below(random, 10);
  if (kind == 0) return t + absl::Seconds(Below(random, 86400));
  if (kind <= 2) {  // the end of a year or of February
    const int year = 1972 + Below(random, 120);
    return absl::FromCivil(kind == 1 ? absl::CivilDay(year, 1, 1) : absl::CivilDay(year, 3, 1),
                           zone);
  }
  if (!zone.NextTransition(t, &change) && !zone.PrevTransition(t, &change)) return t;
  if (change.from < absl::CivilSecond(1971)) return t;
  // `from` is skipped in a gap; `to` is repeated in an overlap; both name the change.
  const absl::TimeZone::TimeInfo info = zone.At(change.from < change.to ? change.from : change.to);
  return info.kind == absl::TimeZone::TimeInfo::UNIQUE ? t : info.trans;
}

DstPolicy RandomPolicy(std::mt19937_64& random) {
  DstPolicy policy;
  if (Below(random, 2) == 0) return policy;
  policy.gap = static_cast<GapPolicy>(Below(random, 4));
  policy.overlap = static_cast<OverlapPolicy>(Below(random, 4));
  return policy;
}

}  // namespace escapement::cron
