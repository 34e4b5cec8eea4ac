// The time zone database: the rules of its zones (ZoneRules), its place in the store (Switch,
// PartitionFrontier), the one of this machine (Database), and its revisions.

#ifndef COMMON_TZDATA_TZDATA_TABLE_H_
#define COMMON_TZDATA_TZDATA_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"

namespace escapement::tzdata {

// A zone's rules over some years, in a form to store and compare.
//
// Pure.

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

// Keys and values of `meta` about the time zone database (README.md has the format).
//
// Pure.

// → the revision in force, as text.
inline constexpr absl::string_view kRevisionKey = "tz_rev";
// → the last switch from one revision to another; absent before the first switch.
inline constexpr absl::string_view kSwitchKey = "tz_switch";
inline constexpr absl::string_view kZonePrefix = "tz_zone/";

std::string ZoneRulesKey(absl::string_view zone);  // → the zone's rules in force
std::string FrontierKey(uint16_t partition);       // → PartitionFrontier

struct Switch {
  // Store time of the switch's commit.
  absl::Time time = absl::InfinitePast();
  std::string old_revision = {}, new_revision = {};
  // The former rules of the zones whose rules changed before `time` + kSwitchReach.
  RulesByName before = {};
};
// If rules differ only later than this after a switch, no emitted occurrence moves.
inline constexpr absl::Duration kSwitchReach = absl::Hours(72);

// The time stays zero: the store writes it (Mutation::kPutStamped at kSwitchStampOffset).
inline constexpr uint32_t kSwitchStampOffset = 0;
std::string EncodeSwitch(const Switch& change);
std::optional<Switch> DecodeSwitch(absl::string_view value);

// How far a partition was emitted and planned under the former rules.
struct PartitionFrontier {
  std::string revision;
  absl::Time emitted_to, planned_to;

  friend bool operator==(const PartitionFrontier&, const PartitionFrontier&) = default;
};
std::string EncodeFrontier(const PartitionFrontier& frontier);
std::optional<PartitionFrontier> DecodeFrontier(absl::string_view value);

// The condition that `revision` is in force.
kv::Condition RevisionIs(absl::string_view revision);

// This machine's time zone database, in the form that is compared with the store's.
//
// Threads: any.

struct Database {
  std::string revision;
  // All zones, in the order of their names. Loading them takes some 100 ms, and 15 MB that stay in
  // memory. Only a process that brings a revision into force needs them.
  std::function<std::vector<cron::Zone>()> zones;
};

// The revision is the version in the files (cron::TzdataVersion). If the files have none, all zones
// are loaded and hashed.
Database ThisMachine();

// "unknown-" and 16 hex digits: XXH3 over all offsets of the years 1969 to 2200.
std::string RevisionOf(const std::vector<cron::Zone>& zones);

// Names of revisions of the time zone database, and their order.
//
// A revision is the version that the database states: a year, letters, and any rest ("2026b",
// "2026b.1"). Two machines with one version count as having the same rules. A database without a
// version has the revision "unknown-" and the hash of all its rules. That is neither newer nor
// older than any other, so machines with such databases work together only if their rules are
// equal.
//
// Pure.

inline constexpr absl::string_view kUnknownVersion = "unknown";

// True if revision `a` is certainly newer than `b`. Compares the years, then the letters ("z"
// before "aa"), then the rest as text.
bool Newer(absl::string_view a, absl::string_view b);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_TZDATA_TABLE_H_
