#include "services/master/runs/occurrence_ranges.h"

#include <algorithm>
#include <utility>

namespace escapement::master {
namespace {

// No zone has ever had a larger offset.
constexpr absl::Duration kOffsetMax = absl::Hours(16);
// An occurrence in a gap is named after a civil time that its zone has skipped, and fires up to the
// gap's length later. No gap is longer than a day.
constexpr absl::Duration kGapMax = absl::Hours(25);
constexpr absl::Duration kRulesMayHaveMoved = absl::Hours(1);

std::string CivilText(absl::Time utc) {
  return absl::FormatTime("%E4Y%m%dT%H%M%S", utc, absl::UTCTimeZone());
}

// The civil times at which clocks that are [west, east] ahead of UTC stand from begin to end.
std::pair<absl::Time, absl::Time> Civil(absl::Time begin, absl::Time end, absl::Duration west,
                                        absl::Duration east) {
  return {begin + west, end + east};
}

std::pair<absl::Time, absl::Time> CivilIn(const cron::Zone& zone, absl::Time begin,
                                          absl::Time end) {
  size_t span = zone.SpanAt(absl::ToUnixSeconds(begin - kGapMax));
  const size_t last = zone.SpanAt(absl::ToUnixSeconds(end));
  absl::Duration west = kOffsetMax;
  absl::Duration east = -kOffsetMax;
  for (; span <= last; ++span) {
    const absl::Duration offset = absl::Seconds(zone.spans()[span].offset);
    west = std::min(west, offset);
    east = std::max(east, offset);
  }
  if (zone.spans().size() > 1) {  // UTC never changes
    west -= kRulesMayHaveMoved;
    east += kRulesMayHaveMoved;
  }
  return Civil(begin, end, west, east);
}

}  // namespace

std::vector<TextRange> OccurrenceRanges(absl::Time begin, absl::Time end,
                                        const std::vector<cron::Zone>& zones) {
  std::vector<std::pair<absl::Time, absl::Time>> civil;
  if (zones.empty()) {
    civil.push_back(Civil(begin, end, -kOffsetMax, kOffsetMax));
  } else {
    civil.push_back({begin, end});
    for (const cron::Zone& zone : zones) civil.push_back(CivilIn(zone, begin, end));
  }
  std::sort(civil.begin(), civil.end());
  std::vector<std::pair<absl::Time, absl::Time>> apart;
  for (const auto& range : civil) {
    if (!apart.empty() && range.first <= apart.back().second) {
      apart.back().second = std::max(apart.back().second, range.second);
    } else {
      apart.push_back(range);
    }
  }
  std::vector<TextRange> ranges;
  for (const auto& [first, last] : apart) {
    // The text of a second stands before those of all occurrences in it.
    ranges.push_back({CivilText(first), CivilText(last + absl::Seconds(1))});
  }
  return ranges;
}

}  // namespace escapement::master
