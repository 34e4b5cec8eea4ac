#include "common/cron/timetable.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/cron/civil_match.h"
#include "common/cron/occurrence_id.h"

namespace escapement::cron {
namespace {

absl::Time CeilMicros(absl::Time time) {
  const absl::Time floor = absl::FromUnixMicros(absl::ToUnixMicros(time));
  return floor < time ? floor + absl::Microseconds(1) : floor;
}

}  // namespace

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
  const int64_t allowed =
      FirstAllowed(every_second, spec_.exclusions, local, kLocalEnd).value_or(kLocalEnd);
  if (allowed == local) return instant;
  // Civil time is continuous only up to the next change of the offset.
  return absl::FromUnixSeconds(std::min(second + (allowed - local), spec_.zone.SpanEnd(span)));
}

std::optional<Occurrence> Timetable::FirstAtOrAfter(absl::Time from) const {
  from = std::max(from, spec_.start);
  if (calendar()) {
    std::optional<Occurrence> found =
        cron::FirstAtOrAfter(*spec_.cron, spec_.zone, spec_.policy, from, spec_.exclusions);
    return found.has_value() && found->instant < spec_.end ? found : std::nullopt;
  }
  for (int step = 0; step < kExclusionStepsMax; ++step) {
    const std::optional<absl::Time> found = FirstInstant(from);
    if (!found.has_value() || *found >= spec_.end) return std::nullopt;
    from = spec_.exclusions.empty() ? *found : PassExclusions(*found);
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
    return cron::Enumerate(*spec_.cron, spec_.zone, spec_.policy, begin, end, max,
                           spec_.exclusions);
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

std::string Timetable::IdOf(const Occurrence& occurrence) const {
  return calendar() ? FormatCalendarOccurrence(occurrence.civil, occurrence.fold, spec_.zone.name())
                    : FormatInstantOccurrence(occurrence.instant);
}

bool Timetable::Has(absl::string_view id, absl::Time nominal) const {
  const std::optional<Occurrence> found = FirstAtOrAfter(nominal);
  return found.has_value() && found->instant == nominal && absl::string_view(IdOf(*found)) == id;
}

}  // namespace escapement::cron
