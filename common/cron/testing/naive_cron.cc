#include "common/cron/testing/naive_cron.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace escapement::cron {
namespace {

int Below(std::mt19937_64& random, int bound) { return static_cast<int>(random() % bound); }

const std::vector<std::string>& Names(int high) {
  static const auto* const months = new std::vector<std::string>{
      "", "JAN", "feb", "Mar", "apr", "MAY", "jUn", "JUL", "aug", "SEP", "oct", "NOV", "DeC"};
  static const auto* const weekdays =
      new std::vector<std::string>{"SUN", "mon", "TUE", "Wed", "thU", "FRI", "sat"};
  static const auto* const none = new std::vector<std::string>;
  return high == 12 ? *months : high == 6 ? *weekdays : *none;
}

// Writes the value by its name, if it has one, or as a number. Sunday may also be 7.
std::string Written(std::mt19937_64& random, int value, int high) {
  const std::vector<std::string>& names = Names(high);
  if (!names.empty() && Below(random, 3) == 0) return names[value];
  if (high == 6 && value == 0 && Below(random, 2) == 0) return "7";
  return value < 10 && Below(random, 8) == 0 ? absl::StrCat("0", value) : absl::StrCat(value);
}

// One item of a field with the values [low, high]. `max` is the highest value of a/n (7 in
// day-of-week, which means 0).
std::string RandomItem(std::mt19937_64& random, int low, int high, int max, std::set<int>& values) {
  const int size = high - low + 1;
  const int a = low + Below(random, size), b = low + Below(random, size),
            n = 1 + Below(random, std::min(max, 20));
  const auto walk = [&](int first, int count, int step) {
    for (int i = 0; i < count; i += step) values.insert(low + (first - low + i) % size);
  };
  const int length = (b - a + size) % size + 1;
  const bool names = !Names(high).empty() && Below(random, 3) == 0;
  const std::string first = names ? Names(high)[a] : absl::StrCat(a),
                    last = names ? Names(high)[b] : absl::StrCat(b);
  switch (Below(random, 6)) {
    case 0:
      walk(a, length, 1);
      return absl::StrCat(first, "-", last);
    case 1:
      walk(a, length, n);
      return absl::StrCat(first, "-", last, "/", n);
    case 2:
      walk(a, max - a + 1, n);
      return absl::StrCat(first, "/", n);
    case 3:
      walk(low, size, n);
      return absl::StrCat("*/", n);
    default:
      values.insert(a);
      return Written(random, a, high);
  }
}

int LastDay(absl::CivilDay day) { return (absl::CivilDay(absl::CivilMonth(day) + 1) - 1).day(); }
int Weekday(absl::CivilDay day) {
  return (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;  // absl counts from Monday
}

// The day from Monday to Friday in the month that is nearest to its day n.
int NearestWeekday(absl::CivilDay in_month, int n) {
  int nearest = 0;
  for (int d = 1; d <= LastDay(in_month); ++d) {
    const int weekday = Weekday(absl::CivilDay(in_month.year(), in_month.month(), d));
    if (weekday == 0 || weekday == 6) continue;
    if (nearest == 0 || std::abs(d - n) < std::abs(nearest - n)) nearest = d;
  }
  return nearest;
}

std::string RandomMonthDayItem(std::mt19937_64& random, std::vector<NaiveDayItem>& items) {
  const bool small = Below(random, 2) == 0;
  // On the first and last days the nearest weekday may lie on the other side.
  const int n = small ? 1 + (28 + Below(random, 5)) % 31 : 1 + Below(random, 31);
  const int before = Below(random, small ? 3 : 31);
  switch (Below(random, 5)) {
    case 0:
      items.push_back([](absl::CivilDay d) { return d.day() == LastDay(d); });
      return "L";
    case 1:
      items.push_back([before](absl::CivilDay d) { return d.day() == LastDay(d) - before; });
      return absl::StrCat("L-", before);
    case 2:
      items.push_back(
          [n](absl::CivilDay d) { return n <= LastDay(d) && d.day() == NearestWeekday(d, n); });
      return absl::StrCat(n, "W");
    case 3:
      items.push_back([](absl::CivilDay d) { return d.day() == NearestWeekday(d, LastDay(d)); });
      return "LW";
    default:
      items.push_back([before](absl::CivilDay d) {
        const int day = LastDay(d) - before;
        return day >= 1 && d.day() == NearestWeekday(d, day);
      });
      return absl::StrCat("L-", before, "W");
  }
}

std::string RandomWeekdayItem(std::mt19937_64& random, std::vector<NaiveDayItem>& items) {
  const int weekday = Below(random, 7), k = 1 + Below(random, 5);
  const std::string name = Written(random, weekday, 6);
  const int kind = Below(random, 4);
  if (kind < 2) {
    items.push_back([weekday, k](absl::CivilDay d) {
      if (Weekday(d) != weekday) return false;
      int place = 0;
      for (absl::CivilDay other(d.year(), d.month(), 1); other <= d; ++other)
        place += Weekday(other) == weekday;
      return place == k;
    });
    return absl::StrCat(name, "#", k);
  }
  items.push_back([weekday](absl::CivilDay d) {
    return Weekday(d) == weekday && absl::CivilMonth(d + 7) != absl::CivilMonth(d);
  });
  return absl::StrCat(name, kind == 2 ? "#L" : "L");
}

using RandomDayItem = std::string (*)(std::mt19937_64& random, std::vector<NaiveDayItem>& items);

// Writes "*" in `stars` of 8 cases.
std::string RandomField(std::mt19937_64& random, int low, int high, int max, int stars,
                        std::set<int>& values, RandomDayItem day_item = nullptr,
                        std::vector<NaiveDayItem>* items = nullptr) {
  if (Below(random, 8) < stars) {
    for (int v = low; v <= high; ++v) values.insert(v);
    return day_item != nullptr && Below(random, 4) == 0 ? "?" : "*";
  }
  std::string text;
  do {
    if (!text.empty()) text += ",";
    text += day_item != nullptr && Below(random, 3) == 0
                ? day_item(random, *items)
                : RandomItem(random, low, high, max, values);
  } while (Below(random, 3) == 0);
  return text;
}

std::string RandomYears(std::mt19937_64& random, std::set<int>& years) {
  const int a = 1970 + Below(random, 150), b = a + Below(random, 2200 - a),
            n = 1 + Below(random, 6);
  const auto walk = [&](int first, int last, int step) {
    for (int year = first; year <= last; year += step) years.insert(year);
  };
  std::string text;
  switch (Below(random, 6)) {
    case 0:
      walk(a, b, 1);
      text = absl::StrCat(a, "-", b);
      break;
    case 1:
      walk(a, b, n);
      text = absl::StrCat(a, "-", b, "/", n);
      break;
    case 2:
      walk(a, 2199, n);
      text = absl::StrCat(a, "/", n);
      break;
    case 3:
      walk(1970, 2199, n);
      text = absl::StrCat("*/", n);
      break;
    default:
      years.insert(a);
      text = absl::StrCat(a);
  }
  if (Below(random, 2) == 0) absl::StrAppend(&text, ",", RandomYears(random, years));
  return text;
}

bool HasRhythm(const std::string& field) { return field.find_first_of("*/") != std::string::npos; }

struct Stars {
  int minute, hour, day, month, weekday;  // stars in 8 cases
};

NaiveCron RandomExpression(std::mt19937_64& random, const Stars& stars) {
  NaiveCron cron;
  std::string second, year;
  if (Below(random, 3) == 0) second = RandomField(random, 0, 59, 59, 0, cron.seconds);
  if (Below(random, 5) == 0) year = absl::StrCat(" ", RandomYears(random, cron.years));
  if (second.empty()) cron.seconds = {0};
  if (second.empty() && !year.empty()) second = "0";
  const std::string minute = RandomField(random, 0, 59, 59, stars.minute, cron.minutes);
  const std::string hour = RandomField(random, 0, 23, 23, stars.hour, cron.hours);
  const std::string day =
      RandomField(random, 1, 31, 31, stars.day, cron.days, RandomMonthDayItem, &cron.day_items);
  const std::string month = RandomField(random, 1, 12, 12, stars.month, cron.months);
  std::string weekday = RandomField(random, 0, 6, 7, stars.weekday, cron.weekdays,
                                    RandomWeekdayItem, &cron.weekday_items);
  cron.day_restricted = day != "*" && day != "?";
  cron.weekday_restricted = weekday != "*" && weekday != "?";
  if (cron.weekday_restricted && Below(random, 3) == 0) {
    cron.both_days = true;
    weekday = absl::StrCat("+", weekday);
  }
  cron.second_written = !second.empty();
  cron.periodic = HasRhythm(second) || HasRhythm(minute) || HasRhythm(hour) ||
                  cron.seconds.size() == 60 || cron.minutes.size() == 60 || cron.hours.size() == 24;
  cron.text = absl::StrCat(second, second.empty() ? "" : " ", minute, " ", hour, " ", day, " ",
                           month, " ", weekday, year);
  return cron;
}

bool NaiveMatches(const NaiveCron& cron, absl::CivilSecond civil) {
  return cron.seconds.contains(civil.second()) && cron.minutes.contains(civil.minute()) &&
         cron.hours.contains(civil.hour()) && NaiveDayMatches(cron, absl::CivilDay(civil));
}

}  // namespace

NaiveCron RandomCron(std::mt19937_64& random) {
  return RandomExpression(random, {.minute = 1, .hour = 3, .day = 5, .month = 6, .weekday = 5});
}

NaiveCron RandomExclusion(std::mt19937_64& random) {
  NaiveCron cron =
      RandomExpression(random, {.minute = 5, .hour = 4, .day = 6, .month = 7, .weekday = 6});
  if (!cron.second_written) {
    for (int second = 0; second < 60; ++second) cron.seconds.insert(second);
  }
  return cron;
}

bool NaiveDayMatches(const NaiveCron& cron, absl::CivilDay day) {
  if (!cron.months.contains(day.month())) return false;
  if (!cron.years.empty() && !cron.years.contains(static_cast<int>(day.year()))) return false;
  const auto any = [&](const std::vector<NaiveDayItem>& items) {
    return std::any_of(items.begin(), items.end(),
                       [&](const NaiveDayItem& item) { return item(day); });
  };
  const bool by_day = cron.days.contains(day.day()) || any(cron.day_items);
  const bool by_weekday = cron.weekdays.contains(Weekday(day)) || any(cron.weekday_items);
  if (cron.day_restricted && cron.weekday_restricted && !cron.both_days)
    return by_day || by_weekday;
  return by_day && by_weekday;
}

namespace {

// The days of an expression whose occurrences are on `day`.
std::vector<absl::CivilDay> NaiveSources(const NaiveCron& cron, absl::CivilDay day,
                                         const NaiveDaysOff* days_off) {
  std::vector<absl::CivilDay> sources;
  if (days_off != nullptr && days_off->has(day)) return sources;
  if (NaiveDayMatches(cron, day)) sources.push_back(day);
  if (days_off == nullptr || days_off->on_excluded == OnExcluded::kSkip) return sources;
  const int step = days_off->on_excluded == OnExcluded::kNext ? -1 : 1;
  absl::CivilDay source = day + step;
  for (int i = 1; i <= 366 && days_off->has(source); ++i, source += step) {
    if (NaiveDayMatches(cron, source)) sources.push_back(source);
  }
  return sources;
}

}  // namespace

NaiveDaysOff RandomDaysOff(std::mt19937_64& random, absl::CivilDay around) {
  std::set<absl::CivilDay> dates, except;
  std::vector<NaiveCron> rules;
  NaiveDaysOff days_off;
  const auto draw = [&](std::set<absl::CivilDay>& days, int count) {
    for (int i = 0; i < count; ++i) days.insert(around + Below(random, 60) - 30);
  };
  draw(dates, Below(random, 20));
  draw(except, Below(random, 6));
  if (Below(random, 8) == 0) {  // a long stretch
    const absl::CivilDay first = around - Below(random, 300);
    for (int i = 0, n = 355 + Below(random, 25); i < n; ++i) dates.insert(first + i);
  }
  for (int i = Below(random, 3); i > 0; --i) {
    NaiveCron rule = RandomCron(random);
    const std::vector<std::string> fields = absl::StrSplit(rule.text, ' ');
    const size_t day = fields.size() == 5 ? 2 : 3;
    std::string text = absl::StrJoin(fields.begin() + day, fields.end(), " ");
    days_off.spec.rules.push_back(ParseDayRule(text).value());
    rules.push_back(std::move(rule));
  }
  const auto numbers = [](const std::set<absl::CivilDay>& days) {
    std::vector<int32_t> counted;
    for (const absl::CivilDay day : days)
      counted.push_back(static_cast<int32_t>(day - absl::CivilDay(1970, 1, 1)));
    return counted;
  };
  days_off.spec.dates = numbers(dates);
  days_off.spec.except = numbers(except);
  days_off.on_excluded = static_cast<OnExcluded>(Below(random, 3));
  std::vector<NaiveDaysOff> others;
  if (Below(random, 4) == 0) {
    others.push_back(RandomDaysOff(random, around));
    days_off.spec.others.push_back(std::make_shared<const DaySet>(others.back().spec));
  }
  days_off.has = [dates, except, rules, others](absl::CivilDay day) {
    if (except.contains(day)) return false;
    return dates.contains(day) ||
           std::any_of(rules.begin(), rules.end(),
                       [&](const NaiveCron& rule) { return NaiveDayMatches(rule, day); }) ||
           std::any_of(others.begin(), others.end(),
                       [&](const NaiveDaysOff& other) { return other.has(day); });
  };
  return days_off;
}

std::map<absl::Time, std::pair<absl::CivilSecond, int>> NaiveOccurrences(
    const NaiveCron& cron, const absl::TimeZone& zone, const DstPolicy& policy, absl::Time begin,
    absl::Time end, const std::vector<NaiveCron>& exclusions, const NaiveDaysOff* days_off) {
  std::map<absl::Time, std::pair<absl::CivilSecond, int>> exact, moved;
  const auto put = [&](absl::Time t, absl::CivilSecond civil, int fold) {
    if (t >= begin && t < end) exact[t] = {civil, fold};
  };
  // Civil times ascend, so the last time that moves to an instant is the latest nominal one.
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
      const FoldPolicy automatic = rhythm ? FoldPolicy::kBoth : FoldPolicy::kFirst;
      const FoldPolicy rule = policy.fold == FoldPolicy::kAuto ? automatic : policy.fold;
      if (rule != FoldPolicy::kLast) put(info.pre, civil, 0);
      if (rule != FoldPolicy::kFirst) put(info.post, civil, 1);
    }
  };
  const auto excluded = [&](absl::CivilSecond civil) {
    return civil.year() < 1970 || civil.year() > 2199 ||
           std::any_of(exclusions.begin(), exclusions.end(),
                       [&](const NaiveCron& exclusion) { return NaiveMatches(exclusion, civil); });
  };
  const absl::CivilDay last(absl::ToCivilSecond(end + absl::Hours(50), absl::UTCTimeZone()));
  for (absl::CivilDay day(absl::ToCivilSecond(begin - absl::Hours(50), absl::UTCTimeZone()));
       day <= last; ++day) {
    const std::vector<absl::CivilDay> sources = NaiveSources(cron, day, days_off);
    if (sources.empty() || day.year() < 1970 || day.year() > 2199) continue;
    for (const int hour : cron.hours) {
      for (const int minute : cron.minutes) {
        for (const int second : cron.seconds) {
          const int time = hour * 3600 + minute * 60 + second;
          if (std::any_of(sources.begin(), sources.end(), [&](absl::CivilDay source) {
                return !excluded(absl::CivilSecond(source) + time);
              }))
            visit(absl::CivilSecond(day) + time);
        }
      }
    }
  }
  exact.merge(moved);  // keeps the times that exist
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
  const int kind = Below(random, 12);
  if (kind >= 10) {  // the end of some month
    const absl::CivilMonth month(1971 + Below(random, 228), 1 + Below(random, 12));
    return absl::FromCivil(absl::CivilDay(month) - Below(random, 3), zone);
  }
  if (kind == 0) return t + absl::Seconds(Below(random, 86400));
  if (kind <= 2) {  // the end of a year or of February
    const int year = 1972 + Below(random, 120);
    return absl::FromCivil(kind == 1 ? absl::CivilDay(year, 1, 1) : absl::CivilDay(year, 3, 1),
                           zone);
  }
  if (!zone.NextTransition(t, &change) && !zone.PrevTransition(t, &change)) return t;
  if (change.from < absl::CivilSecond(1971)) return t;
  // `from` is skipped in a gap; `to` is repeated in a fold; both name the change.
  const absl::TimeZone::TimeInfo info = zone.At(change.from < change.to ? change.from : change.to);
  return info.kind == absl::TimeZone::TimeInfo::UNIQUE ? t : info.trans;
}

DstPolicy RandomPolicy(std::mt19937_64& random) {
  DstPolicy policy;
  if (Below(random, 2) == 0) return policy;
  policy.gap = static_cast<GapPolicy>(Below(random, 4));
  policy.fold = static_cast<FoldPolicy>(Below(random, 4));
  return policy;
}

}  // namespace escapement::cron
