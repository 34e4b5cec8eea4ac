// Keys and values of `meta` about the time zone database (README.md has the format).
//
// Pure.

#ifndef COMMON_TZDATA_TZDATA_TABLE_H_
#define COMMON_TZDATA_TZDATA_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/tzdata/zone_rules.h"

namespace escapement::tzdata {

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

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_TZDATA_TABLE_H_
