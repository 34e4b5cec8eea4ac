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

std::optional<Occurrence> Timetable::FirstUnrestricted(absl::Time from) const {
  if (spec_.cron.has_value())
    return cron::FirstAtOrAfter(*spec_.cron, spec_.zone, spec_.policy, from);
  if (spec_.every > absl::ZeroDuration()) {
    const int64_t every = absl::ToInt64Microseconds(spec_.every);
    const int64_t anchor = absl::ToUnixMicros(spec_.anchor);
    // Before 1970 nothing fires, as with cron expressions.
    const int64_t begin = absl::ToUnixMicros(CeilMicros(std::max(from, absl::UnixEpoch())));
    if (begin >= kLocalEnd * 1'000'000) return std::nullopt;
    const int64_t past = ((begin - anchor) % every + every) % every;
    return InstantOccurrence(absl::FromUnixMicros(past == 0 ? begin : begin + every - past));
  }
  const auto it = std::lower_bound(spec_.times.begin(), spec_.times.end(), from);
  if (it == spec_.times.end()) return std::nullopt;
  return InstantOccurrence(*it);
}

absl::Time Timetable::PassExclusions(const Occurrence& occurrence) const {
  const int64_t local = ToLocalSeconds(occurrence.civil);
  int64_t until = local;
  for (const CronExpression& exclusion : spec_.exclusions) {
    if (Matches(exclusion, local)) until = std::max(until, FirstUnmatched(exclusion, local));
  }
  if (until == local) return occurrence.instant;
  // What a gap moved does not advance with its civil time.
  const bool moved =
      occurrence.note == Note::kGapFiredAfter || occurrence.note == Note::kGapShifted;
  absl::Time next =
      occurrence.instant + (moved ? absl::Microseconds(1) : absl::Seconds(until - local));
  // Civil time is even only up to the next change of the offset.
  if (const auto change = spec_.zone.NextChange(occurrence.instant))
    next = std::min(next, change->instant);
  // The civil time of an instant between two seconds is that of the whole second.
  return std::max(absl::FromUnixSeconds(absl::ToUnixSeconds(next)),
                  occurrence.instant + absl::Microseconds(1));
}

std::optional<Occurrence> Timetable::FirstAtOrAfter(absl::Time from) const {
  from = std::max(from, spec_.start);
  for (int step = 0; step < kExclusionStepsMax; ++step) {
    std::optional<Occurrence> found = FirstUnrestricted(from);
    if (!found.has_value() || found->instant >= spec_.end) return std::nullopt;
    if (spec_.exclusions.empty()) return found;
    from = PassExclusions(*found);
    if (from == found->instant) return found;
  }
  return std::nullopt;
}

std::optional<Occurrence> Timetable::FirstAfter(absl::Time after) const {
  return FirstAtOrAfter(after + absl::Nanoseconds(1));
}

std::vector<Occurrence> Timetable::Enumerate(absl::Time begin, absl::Time end, size_t max) const {
  begin = std::max(begin, spec_.start);
  end = std::min(end, spec_.end);
  if (spec_.cron.has_value() && spec_.exclusions.empty())
    return cron::Enumerate(*spec_.cron, spec_.zone, spec_.policy, begin, end, max);
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
  std::vector<Occurrence> latest;
  // Backwards in stretches that double, so that few occurrences are found in vain.
  for (absl::Duration stretch = absl::Minutes(1); begin < end && latest.size() < max;
       stretch *= 2) {
    const absl::Time from = std::max(begin, end - stretch);
    std::vector<Occurrence> before = Enumerate(from, end, std::numeric_limits<size_t>::max());
    before.insert(before.end(), latest.begin(), latest.end());
    latest = std::move(before);
    end = from;
  }
  if (latest.size() > max)
    latest.erase(latest.begin(), latest.end() - static_cast<std::ptrdiff_t>(max));
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
