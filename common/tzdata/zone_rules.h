// A zone's rules over some years, in a form to store and compare.
//
// Pure.

#ifndef COMMON_TZDATA_ZONE_RULES_H_
#define COMMON_TZDATA_ZONE_RULES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/zone.h"

namespace escapement::tzdata {

// The offsets in [begin, end), whole seconds. The first offset also counts before, the last also
// after.
struct ZoneRules {
  absl::Time begin, end;
  std::vector<cron::OffsetSpan> spans = {};  // as Zone::spans
};

using RulesByName = std::map<std::string, ZoneRules>;

// The zone's rules over [begin, end), cut to whole seconds.
ZoneRules RulesOf(const cron::Zone& zone, absl::Time begin, absl::Time end);

// True if both have the same offset at every instant before `end` that both cover.
bool SameRules(const ZoneRules& a, const ZoneRules& b, absl::Time end = absl::InfiniteFuture());

// begin (i64), end (i64), offset (i32), then for each change its instant (i64) and the new offset
// (i32): big-endian, seconds.
std::string EncodeRules(const ZoneRules& rules);
// nullopt if the bytes are not rules.
std::optional<ZoneRules> DecodeRules(absl::string_view bytes);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_ZONE_RULES_H_
