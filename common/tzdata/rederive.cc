#include "common/tzdata/rederive.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/cron/occurrence_id.h"

namespace escapement::tzdata {
namespace {

using cron::Occurrence;
using cron::Timetable;
using cron::Zone;

struct OffsetBounds {
  int64_t min = std::numeric_limits<int64_t>::max(), max = std::numeric_limits<int64_t>::min();
};

// Over all spans that touch [begin, end).
void Widen(const Zone& zone, int64_t begin, int64_t end, OffsetBounds* bounds) {
  for (size_t i = zone.SpanAt(begin); i < zone.spans().size(); ++i) {
    if (zone.spans()[i].begin >= end) return;
    bounds->min = std::min(bounds->min, zone.spans()[i].offset);
    bounds->max = std::max(bounds->max, zone.spans()[i].offset);
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
  // Fired after the gap, or shifted.
  if (const auto after = at(zone.spans()[info.gap].begin)) return after;
  return at(cron::ToLocalSeconds(civil) - zone.spans()[info.gap - 1].offset);
}

MovedZone::MovedZone(Zone before, const Zone& now, absl::Time switch_time)
    : before_(std::move(before)), switch_time_(switch_time) {
  // What is decided by a switch may be owed from long before it, if nobody has emitted since.
  const int64_t begin = absl::ToUnixSeconds(switch_time - absl::Hours(366 * 24));
  const int64_t end = absl::ToUnixSeconds(switch_time + kSwitchReach);
  OffsetBounds bounds;
  Widen(before_, begin, end, &bounds);
  Widen(now, begin, end, &bounds);
  reach_ = absl::Seconds(bounds.max - bounds.min);
}

absl::Time MovedZone::ReadFrom(absl::Time emitted_to) const {
  return std::min(emitted_to, switch_time_) - reach_;
}

absl::Time MovedZone::JudgeTo(absl::Time emitted_to) const {
  return std::max(emitted_to, std::min(emitted_to, switch_time_) + reach_);
}

bool MovedZone::Emits(const Timetable& now, const Occurrence& occurrence,
                      absl::Time emitted_to) const {
  if (occurrence.instant >= JudgeTo(emitted_to)) return true;
  cron::TimetableSpec spec = now.spec();
  spec.zone = before_;
  const std::optional<absl::Time> before =
      InstantOf(Timetable(std::move(spec)), occurrence.civil, occurrence.fold);
  const absl::Time decided_to = std::min(emitted_to, switch_time_);
  if (!before) return occurrence.instant >= decided_to;
  if (*before < decided_to) return false;
  return occurrence.instant >= emitted_to || *before != occurrence.instant;
}

MovedZones::MovedZones(const Switch& change) : time_(change.time), committed_(change.committed()) {
  for (const auto& [name, rules] : change.before) {
    const auto now = Zone::Load(name);
    if (!now.ok()) continue;  // nothing of it can be emitted here
    zones_.emplace(name, MovedZone(Zone::FromSpans(name, rules.spans), *now, time_));
  }
}

const MovedZone* MovedZones::Find(absl::string_view zone) const {
  const auto it = zones_.find(zone);
  return it == zones_.end() ? nullptr : &it->second;
}

RowFate JudgeQueuedRow(const MovedZones& moved, const Timetable& timetable, absl::string_view id,
                       absl::Time nominal) {
  if (!timetable.calendar() || nominal < moved.time()) return RowFate::kStays;
  if (moved.Find(timetable.spec().zone.name()) == nullptr) return RowFate::kStays;
  if (timetable.Has(id, nominal)) return RowFate::kStays;
  const auto occurrence = cron::ParseOccurrence(id);
  if (!occurrence.ok() || !occurrence->calendar) return RowFate::kStays;
  return InstantOf(timetable, occurrence->civil, occurrence->fold) ? RowFate::kElsewhere
                                                                   : RowFate::kNowhere;
}

}  // namespace escapement::tzdata
