#include "tests/simulation/checkers/model/naive_expander.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"

namespace escapement::simulation {
namespace {

int Number(const std::string& text) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    std::fprintf(stderr, "naive expander: '%s' is no number\n", text.c_str());
    std::abort();
  }
  return number;
}

std::set<int> Values(const std::string& field, int low, int high) {
  std::set<int> values;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(field, ','))) {
    const std::vector<std::string> halves = absl::StrSplit(item, '/');
    const int step = halves.size() > 1 ? Number(halves[1]) : 1;
    int from = low;
    int to = high;
    if (halves[0] != "*") {
      const std::vector<std::string> ends = absl::StrSplit(halves[0], '-');
      from = Number(ends[0]);
      to = ends.size() > 1 ? Number(ends[1]) : halves.size() > 1 ? high : from;
    }
    for (int value = from; value <= to; value += step) values.insert(value);
  }
  return values;
}

struct Fields {
  std::set<int> seconds, minutes, hours, days, months, weekdays;
  bool day_restricted = false;
  bool weekday_restricted = false;
  bool with_seconds = false;
  bool rhythm = false;
};

bool IsRhythm(const std::string& field, const std::set<int>& values, size_t all) {
  return field.find('*') != std::string::npos || field.find('/') != std::string::npos ||
         values.size() == all;
}

Fields Parse(absl::string_view cron) {
  std::vector<std::string> texts = absl::StrSplit(std::string(cron), ' ', absl::SkipEmpty());
  Fields fields;
  fields.with_seconds = texts.size() == 6;
  if (!fields.with_seconds) texts.insert(texts.begin(), "0");
  fields.seconds = Values(texts[0], 0, 59);
  fields.minutes = Values(texts[1], 0, 59);
  fields.hours = Values(texts[2], 0, 23);
  fields.days = Values(texts[3], 1, 31);
  fields.months = Values(texts[4], 1, 12);
  for (int day : Values(texts[5], 0, 7)) fields.weekdays.insert(day % 7);
  fields.day_restricted = texts[3] != "*";
  fields.weekday_restricted = texts[5] != "*";
  fields.rhythm = (fields.with_seconds && IsRhythm(texts[0], fields.seconds, 60)) ||
                  IsRhythm(texts[1], fields.minutes, 60) || IsRhythm(texts[2], fields.hours, 24);
  return fields;
}

bool Matches(const Fields& fields, absl::CivilSecond civil) {
  if (!fields.seconds.count(civil.second()) || !fields.minutes.count(civil.minute()) ||
      !fields.hours.count(civil.hour()) || !fields.months.count(civil.month())) {
    return false;
  }
  // Absl's week begins with Monday.
  const int weekday = (static_cast<int>(absl::GetWeekday(civil)) + 1) % 7;
  const bool by_day = fields.days.count(civil.day()) > 0;
  const bool by_weekday = fields.weekdays.count(weekday) > 0;
  if (fields.day_restricted && fields.weekday_restricted) return by_day || by_weekday;
  return by_day && by_weekday;
}

bool Excluded(const std::vector<Fields>& exclusions, absl::CivilSecond civil) {
  return std::any_of(exclusions.begin(), exclusions.end(),
                     [&](const Fields& fields) { return Matches(fields, civil); });
}

absl::TimeZone ZoneOf(absl::string_view name) {
  absl::TimeZone zone;
  if (!absl::LoadTimeZone(std::string(name), &zone)) {
    std::fprintf(stderr, "naive expander: no zone %s\n", std::string(name).c_str());
    std::abort();
  }
  return zone;
}

bool ChangesOffset(const absl::TimeZone& zone, absl::Time begin, absl::Time end) {
  absl::TimeZone::CivilTransition change;
  return zone.NextTransition(begin, &change) && absl::FromCivil(change.from, zone) < end;
}

std::vector<ExpectedOccurrence> ExpandCron(absl::string_view cron, absl::string_view zone_name,
                                           const std::vector<Fields>& exclusions, absl::Time begin,
                                           absl::Time end) {
  const absl::TimeZone zone = ZoneOf(zone_name);
  const Fields fields = Parse(cron);
  std::map<absl::Time, std::pair<absl::CivilSecond, int>> found;
  // A change of the offset may bring in civil times from some hours around.
  const int around =
      ChangesOffset(zone, begin - absl::Hours(8), end + absl::Hours(8)) ? 4 * 3600 : 0;
  const absl::CivilSecond last = absl::ToCivilSecond(end, zone) + around;
  absl::CivilSecond civil(absl::CivilMinute(absl::ToCivilSecond(begin, zone) - around));
  absl::CivilSecond next;
  for (; civil <= last; civil = next) {
    const bool minute = fields.minutes.count(civil.minute()) && fields.hours.count(civil.hour());
    next = civil + (fields.with_seconds && minute ? 1 : 60 - civil.second());
    if (!minute || !Matches(fields, civil) || Excluded(exclusions, civil)) continue;
    const absl::TimeZone::TimeInfo info = zone.At(civil);
    const absl::Duration change = absl::AbsDuration(info.pre - info.post);
    const bool as_rhythm = fields.rhythm || change > absl::Hours(3);
    switch (info.kind) {
      case absl::TimeZone::TimeInfo::UNIQUE:
        found[info.pre] = {civil, 0};
        break;
      case absl::TimeZone::TimeInfo::SKIPPED:
        // If another civil time really exists at that instant, it is an occurrence of its own. If
        // several times were skipped, the latest one gives the name.
        if (!as_rhythm) {
          auto [it, fresh] = found.try_emplace(info.trans, civil, 0);
          if (!fresh && zone.At(it->second.first).kind == absl::TimeZone::TimeInfo::SKIPPED)
            it->second = {civil, 0};
        }
        break;
      case absl::TimeZone::TimeInfo::REPEATED:
        found[info.pre] = {civil, 0};
        if (as_rhythm) found[info.post] = {civil, 1};
        break;
    }
  }
  std::vector<ExpectedOccurrence> occurrences;
  const std::string zone_text = absl::StrReplaceAll(std::string(zone_name), {{"/", "~"}});
  for (const auto& [instant, nominal] : found) {
    if (instant < begin || instant >= end) continue;
    const absl::CivilSecond c = nominal.first;
    char text[32];
    std::snprintf(text, sizeof(text), "%04d%02d%02dT%02d%02d%02d", static_cast<int>(c.year()),
                  c.month(), c.day(), c.hour(), c.minute(), c.second());
    occurrences.push_back({instant, absl::StrCat(text, "-", nominal.second, "-", zone_text)});
  }
  return occurrences;
}

std::vector<absl::Time> InstantsIn(const Definition& definition, absl::Time begin, absl::Time end) {
  std::vector<absl::Time> instants;
  if (definition.every == absl::ZeroDuration()) {
    for (absl::Time time : definition.times) {
      if (time >= begin && time < end) instants.push_back(time);
    }
    return instants;
  }
  absl::Time at = definition.anchor;
  while (at >= begin) at -= definition.every;
  for (; at < end; at += definition.every) {
    if (at >= begin) instants.push_back(at);
  }
  return instants;
}

}  // namespace

std::vector<ExpectedOccurrence> ExpandNaively(absl::string_view cron, absl::string_view zone,
                                              absl::Time begin, absl::Time end) {
  return ExpandCron(cron, zone, {}, begin, end);
}

std::vector<ExpectedOccurrence> ExpandNaively(const Definition& definition, absl::Time begin,
                                              absl::Time end) {
  begin = std::max(begin, definition.start);
  end = std::min(end, definition.end);
  if (begin >= end) return {};
  std::vector<Fields> exclusions;
  for (const std::string& exclusion : definition.exclusions) {
    exclusions.push_back(Parse(exclusion));
    if (exclusions.back().with_seconds) continue;
    for (int second = 0; second < 60; ++second) exclusions.back().seconds.insert(second);
  }
  if (!definition.cron.empty())
    return ExpandCron(definition.cron, definition.zone, exclusions, begin, end);
  const absl::TimeZone zone = ZoneOf(definition.zone);
  std::vector<ExpectedOccurrence> occurrences;
  for (absl::Time instant : InstantsIn(definition, begin, end)) {
    if (Excluded(exclusions, absl::ToCivilSecond(instant, zone))) continue;
    occurrences.push_back(
        {instant, absl::FormatTime("%Y%m%dT%H%M%E6SZ", instant, absl::UTCTimeZone())});
  }
  return occurrences;
}

}  // namespace escapement::simulation
