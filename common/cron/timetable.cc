#include "common/cron/timetable.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/cron/civil_match.h"

namespace escapement::cron {

namespace {

// The same times of day on every day.
CronExpression OnEveryDay(const CronExpression& expression) {
  CronExpression every_day;
  every_day.seconds = expression.seconds;
  every_day.minutes = expression.minutes;
  every_day.hours = expression.hours;
  return every_day;
}

absl::Time CeilMicros(absl::Time time) {
  const absl::Time floor = absl::FromUnixMicros(absl::ToUnixMicros(time));
  return floor < time ? floor + absl::Microseconds(1) : floor;
}

}  // namespace

CivilRules Timetable::Rules() const {
  return {.exclusions = spec_.exclusions,
          .days_off = spec_.days_off.get(),
          .on_excluded = spec_.on_excluded};
}

Occurrence Timetable::InstantOccurrence(absl::Time instant) const {
  return {.instant = instant, .civil = absl::ToCivilSecond(instant, spec_.zone.time_zone())};
}

std::optional<absl::Time> Timetable::FirstInstant(absl::Time from) const {
  if (spec_.every <= absl::ZeroDuration()) {
    const auto it = std::lower_bound(spec_.times.begin(), spec_.times.end(), from);
    return it == spec_.times.end() ? std::nullopt : std::optional<absl::Time>(*it);
  }
  const int64_t every = absl::ToInt64Microseconds(spec_.every);
  const int64_t anchor = absl::ToUnixMicros(spec_.anchor);
  // Nothing fires before 1970, as with cron expressions.
  const int64_t begin = absl::ToUnixMicros(CeilMicros(std::max(from, absl::UnixEpoch())));
  if (begin >= kLocalEnd * 1'000'000) return std::nullopt;
  const int64_t past = ((begin - anchor) % every + every) % every;
  return absl::FromUnixMicros(past == 0 ? begin : begin + every - past);
}

absl::Time Timetable::PassExclusions(absl::Time instant) const {
  // Between two seconds the civil time is that of the whole second.
  const int64_t second = absl::ToUnixSeconds(instant);
  const size_t span = spec_.zone.SpanAt(second);
  const int64_t local = second + spec_.zone.spans()[span].offset;
  // Exclusions end with the years of expressions.
  if (local < kLocalBegin || local >= kLocalEnd) return instant;
  CronExpression every_second;
  every_second.seconds = kEverySecondMask;
  const int64_t allowed = FirstCivil(every_second, Rules(), local, kLocalEnd).value_or(kLocalEnd);
  if (allowed == local) return instant;
  // Civil time is continuous only up to the next change of the offset.
  return absl::FromUnixSeconds(std::min(second + (allowed - local), spec_.zone.SpanEnd(span)));
}

std::optional<Occurrence> Timetable::FirstAtOrAfter(absl::Time from) const {
  from = std::max(from, spec_.start);
  if (calendar()) {
    std::optional<Occurrence> found =
        cron::FirstAtOrAfter(*spec_.cron, spec_.zone, spec_.policy, from, Rules());
    return found.has_value() && found->instant < spec_.end ? found : std::nullopt;
  }
  for (int step = 0; step < kExclusionStepsMax; ++step) {
    const std::optional<absl::Time> found = FirstInstant(from);
    if (!found.has_value() || *found >= spec_.end) return std::nullopt;
    from = spec_.excludes() ? PassExclusions(*found) : *found;
    if (from == *found) return InstantOccurrence(*found);
  }
  return std::nullopt;
}

std::optional<Occurrence> Timetable::FirstAfter(absl::Time after) const {
  return FirstAtOrAfter(after + absl::Nanoseconds(1));
}

std::vector<Occurrence> Timetable::Enumerate(absl::Time begin, absl::Time end, size_t max) const {
  begin = std::max(begin, spec_.start);
  end = std::min(end, spec_.end);
  if (calendar()) {
    return cron::Enumerate(*spec_.cron, spec_.zone, spec_.policy, begin, end, max, Rules());
  }
  std::vector<Occurrence> occurrences;
  while (occurrences.size() < max && begin < end) {
    const std::optional<Occurrence> found = FirstAtOrAfter(begin);
    if (!found.has_value() || found->instant >= end) break;
    occurrences.push_back(*found);
    begin = found->instant + absl::Microseconds(1);
  }
  return occurrences;
}

std::vector<Occurrence> Timetable::EnumerateLast(absl::Time begin, absl::Time end,
                                                 size_t max) const {
  begin = std::max({begin, spec_.start, absl::UnixEpoch() - absl::Hours(48)});
  end = std::min({end, spec_.end, absl::FromUnixSeconds(kLocalEnd) + absl::Hours(48)});
  max = std::min(max, kEnumerateLastMax);
  std::vector<Occurrence> latest;  // the last one is first
  // Search backwards in stretches that double, and halve if they hold far more than needed.
  for (absl::Duration stretch = absl::Minutes(1); begin < end && latest.size() < max;) {
    const absl::Time from = std::max(begin, end - stretch);
    const size_t wanted = max - latest.size(), found_max = 4 * wanted + 64;
    const std::vector<Occurrence> found = Enumerate(from, end, found_max);
    // A stretch of this many microseconds cannot hold more.
    if (found.size() == found_max && stretch > absl::Microseconds(found_max)) {
      stretch /= 2;
      continue;
    }
    latest.insert(latest.end(), found.rbegin(),
                  found.rbegin() + static_cast<std::ptrdiff_t>(std::min(wanted, found.size())));
    end = from;
    stretch *= 2;
  }
  std::reverse(latest.begin(), latest.end());
  return latest;
}

std::vector<Place> Timetable::ChildPlaces() const {
  return cron::ChildPlaces(spec_.moves_days() ? OnEveryDay(*spec_.cron) : *spec_.cron);
}

Place Timetable::PlaceOf(const Occurrence& occurrence) const {
  return CanonicalPlace(spec_.moves_days() ? OnEveryDay(*spec_.cron) : *spec_.cron,
                        occurrence.civil);
}

std::string Timetable::IdOf(const Occurrence& occurrence) const {
  return calendar() ? FormatCalendarOccurrence(occurrence.civil, occurrence.fold, spec_.zone.name())
                    : FormatInstantOccurrence(occurrence.instant);
}

bool Timetable::Has(absl::string_view id, absl::Time nominal) const {
  const std::optional<Occurrence> found = FirstAtOrAfter(nominal);
  return found.has_value() && found->instant == nominal && absl::string_view(IdOf(*found)) == id;
}

MisfirePlan PlanMissed(const Timetable& timetable, const MisfirePolicy& policy, absl::Time begin,
                       absl::Time now) {
  MisfirePlan plan{.summary_to = begin, .fire_from = begin};
  const absl::Time missed_to = now - policy.threshold;
  if (begin >= missed_to) return plan;
  // One more than the bound shows whether there are occurrences for the summary.
  const std::vector<Occurrence> missed =
      timetable.EnumerateLast(begin, missed_to, policy.max_catch_up + 1);
  if (missed.empty()) return plan;
  if (missed.size() > policy.max_catch_up) plan.summary_to = missed[1].instant;
  switch (policy.action) {
    case MisfireAction::kFireAll:
      plan.fire_from = plan.summary_to;
      break;
    case MisfireAction::kFireLatest:
      plan.fire_from = missed.back().instant;
      break;
    case MisfireAction::kSkip:
      plan.fire_from = missed_to;
      break;
  }
  const absl::Time oldest = std::min(now - policy.max_age, missed_to);
  if (missed.front().instant < oldest) plan.fire_from = std::max(plan.fire_from, oldest);
  return plan;
}

namespace {

constexpr size_t kCivilBytes = 15;    // 20261121T030000
constexpr size_t kInstantBytes = 23;  // 20261121T030000.000000Z
constexpr size_t kZoneBytesMax = 64;

// `text[begin, begin + size)` as a number, or -1.
int64_t Number(absl::string_view text, size_t begin, size_t size) {
  int64_t value = 0;
  for (char c : text.substr(begin, size)) {
    if (!absl::ascii_isdigit(c)) return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

std::string FormatCivil(absl::CivilSecond c) {
  return absl::StrFormat("%04d%02d%02dT%02d%02d%02d", c.year(), c.month(), c.day(), c.hour(),
                         c.minute(), c.second());
}

std::optional<absl::CivilSecond> ParseCivil(absl::string_view text) {
  if (text.size() < kCivilBytes || text[8] != 'T') return std::nullopt;
  for (size_t i = 0; i < kCivilBytes; ++i) {
    if (i != 8 && !absl::ascii_isdigit(text[i])) return std::nullopt;
  }
  const absl::CivilSecond civil(Number(text, 0, 4), Number(text, 4, 2), Number(text, 6, 2),
                                Number(text, 9, 2), Number(text, 11, 2), Number(text, 13, 2));
  // Refuses 30 February and the like.
  if (FormatCivil(civil) != text.substr(0, kCivilBytes)) return std::nullopt;
  return civil;
}

bool IsZoneText(absl::string_view text) {
  return !text.empty() && text.size() <= kZoneBytesMax &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("+-_~", c); });
}

}  // namespace

std::string FormatCalendarOccurrence(absl::CivilSecond civil, int fold, absl::string_view zone) {
  return absl::StrCat(FormatCivil(civil), "-", fold, "-", absl::StrReplaceAll(zone, {{"/", "~"}}));
}

std::string FormatInstantOccurrence(absl::Time instant) {
  const int64_t micros = absl::ToUnixMicros(instant);  // floors
  const absl::Time whole = absl::FromUnixMicros(micros);
  const int64_t fraction = ((micros % 1'000'000) + 1'000'000) % 1'000'000;
  return absl::StrFormat("%s.%06dZ", FormatCivil(absl::ToCivilSecond(whole, absl::UTCTimeZone())),
                         fraction);
}

absl::StatusOr<OccurrenceId> ParseOccurrence(absl::string_view text) {
  const auto refuse = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(text.substr(0, 100)), "\" is not an occurrence"));
  };
  const std::optional<absl::CivilSecond> civil = ParseCivil(text);
  if (!civil) return refuse();
  OccurrenceId id;
  if (text.size() == kInstantBytes && text[kCivilBytes] == '.' && text.back() == 'Z') {
    const int64_t fraction = Number(text, kCivilBytes + 1, 6);
    if (fraction < 0) return refuse();
    id.instant = absl::FromCivil(*civil, absl::UTCTimeZone()) + absl::Microseconds(fraction);
    return id;
  }
  const absl::string_view rest = text.substr(kCivilBytes);
  if (rest.size() < 4 || rest[0] != '-' || !absl::ascii_isdigit(rest[1]) || rest[2] != '-' ||
      !IsZoneText(rest.substr(3))) {
    return refuse();
  }
  id.calendar = true;
  id.civil = *civil;
  id.fold = rest[1] - '0';
  id.zone = absl::StrReplaceAll(rest.substr(3), {{"~", "/"}});
  return id;
}

}  // namespace escapement::cron
