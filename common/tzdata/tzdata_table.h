// What `meta` says of the time zone database (README.md has the format).
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
// → the last switch from one revision to another; absent if there has been none.
inline constexpr absl::string_view kSwitchKey = "tz_switch";
inline constexpr absl::string_view kZonePrefix = "tz_zone/";

std::string ZoneRulesKey(absl::string_view zone);  // → the zone's rules in force
std::string FrontierKey(uint16_t partition);       // → PartitionFrontier

struct Switch {
  // Store time of its commit.
  absl::Time time = absl::InfinitePast();
  std::string old_revision = {}, new_revision = {};
  // The former rules of the zones whose rules changed before `time` + kSwitchReach.
  RulesByName before = {};
};
// Rules that differ only later than this after a switch move nothing that has been emitted.
inline constexpr absl::Duration kSwitchReach = absl::Hours(72);

// The time is left zero: the store writes it (Mutation::kPutStamped at kSwitchStampOffset).
inline constexpr uint32_t kSwitchStampOffset = 0;
std::string EncodeSwitch(const Switch& change);
std::optional<Switch> DecodeSwitch(absl::string_view value);

// How far a partition had been emitted and planned under the rules before the revision.
struct PartitionFrontier {
  std::string revision;
  absl::Time emitted_to, planned_to;

  friend bool operator==(const PartitionFrontier&, const PartitionFrontier&) = default;
};
std::string EncodeFrontier(const PartitionFrontier& frontier);
std::optional<PartitionFrontier> DecodeFrontier(absl::string_view value);

// "The revision in force is `revision`."
kv::Condition RevisionIs(absl::string_view revision);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_TZDATA_TABLE_H_
