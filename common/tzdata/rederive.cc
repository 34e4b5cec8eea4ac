#include "common/tzdata/rederive.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace escapement::tzdata {
namespace {

using cron::Occurrence;
using cron::Timetable;
using cron::Zone;

struct OffsetBounds {
  int64_t min = std::numeric_limits<int64_t>::max(), max = std::numeric_limits<int64_t>::min();
};

// Widens the bounds by all spans that touch [begin, end).
void Widen(const Zone& zone, int64_t begin, int64_t end, OffsetBounds& bounds) {
  for (size_t i = zone.SpanAt(begin); i < zone.spans().size(); ++i) {
    if (zone.spans()[i].begin >= end) return;
    bounds.min = std::min(bounds.min, zone.spans()[i].offset);
    bounds.max = std::max(bounds.max, zone.spans()[i].offset);
  }
}

}  // namespace

std::optional<absl::Time> InstantOf(const Timetable& timetable, absl::CivilSecond civil, int fold) {
  const Zone& zone = timetable.spec().zone;
  const auto at = [&](int64_t unix_seconds) -> std::optional<absl::Time> {
    const absl::Time instant = absl::FromUnixSeconds(unix_seconds);
    const std::optional<Occurrence> found = timetable.FirstAtOrAfter(instant);
    if (!found || found->instant != instant || found->civil != civil || found->fold != fold)
      return std::nullopt;
    return instant;
  };
  const cron::CivilInfo info = zone.Classify(civil);
  if (info.kind != cron::CivilKind::kSkipped) {
    const auto index = static_cast<size_t>(fold);
    return fold >= 0 && index < info.instants.size() ? at(info.instants[index]) : std::nullopt;
  }
  if (info.gap == 0) return std::nullopt;
  // It fires after the gap, or is shifted.
  if (const auto after = at(zone.spans()[info.gap].begin)) return after;
  return at(cron::ToLocalSeconds(civil) - zone.spans()[info.gap - 1].offset);
}

MovedZone::MovedZone(Zone before, const Zone& now, absl::Time time) : before_(std::move(before)) {
  // If no emitter has run for long, a switch also decides about occurrences long before it.
  const int64_t begin = absl::ToUnixSeconds(time - absl::Hours(366 * 24));
  const int64_t end = absl::ToUnixSeconds(time + kSwitchReach);
  OffsetBounds bounds;
  Widen(before_, begin, end, bounds);
  Widen(now, begin, end, bounds);
  reach_ = absl::Seconds(bounds.max - bounds.min);
}

absl::Time MovedZone::ReadFrom(absl::Time emitted_to) const { return emitted_to - reach_; }
absl::Time MovedZone::JudgeTo(absl::Time emitted_to) const { return emitted_to + reach_; }

std::optional<absl::Time> MovedZone::Before(const Timetable& now,
                                            const Occurrence& occurrence) const {
  cron::TimetableSpec spec = now.spec();
  spec.zone = before_;
  return InstantOf(Timetable(std::move(spec)), occurrence.civil, occurrence.fold);
}

bool MovedZone::Emits(const std::optional<absl::Time>& before, absl::Time instant,
                      absl::Time emitted_to) const {
  return before.value_or(instant) >= emitted_to;
}

MovedZones::MovedZones(const Switch& change) : time_(change.time) {
  for (const auto& [name, rules] : change.before) {
    const auto now = Zone::Load(name);
    if (!now.ok()) continue;  // no process on this machine can emit for this zone
    zones_.emplace(name, MovedZone(Zone::FromSpans(name, rules.spans), *now, time_));
  }
}

absl::Time MovedZones::JudgeTo(absl::Time emitted_to) const {
  absl::Time to = emitted_to;
  for (const auto& [name, zone] : zones_) to = std::max(to, zone.JudgeTo(emitted_to));
  return to;
}

const MovedZone* MovedZones::Find(absl::string_view zone) const {
  const auto it = zones_.find(zone);
  return it == zones_.end() ? nullptr : &it->second;
}

}  // namespace escapement::tzdata
