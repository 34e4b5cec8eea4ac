#include "common/tzdata/revision_change.h"

#include <utility>

#include "common/kv/group_parts.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::tzdata {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr absl::Duration kKeptBefore = absl::Hours(366 * 24);
constexpr absl::Duration kKeptAfter = absl::Hours(3660 * 24);
// A switch also rewrites the rules of zones that reach no further than this.
constexpr absl::Duration kKeptAtLeast = absl::Hours(1830 * 24);

ZoneRules KeptRules(const cron::Zone& zone, absl::Time now) {
  return RulesOf(zone, now - kKeptBefore, now + kKeptAfter);
}

}  // namespace

kv::Group Adopt(absl::string_view revision, const std::vector<cron::Zone>& zones, absl::Time now) {
  kv::Group group;
  group.conditions = {kv::Absent(ColumnFamily::kMeta, std::string(kRevisionKey))};
  group.mutations.push_back(
      kv::Put(ColumnFamily::kMeta, std::string(kRevisionKey), std::string(revision)));
  for (const cron::Zone& zone : zones)
    group.mutations.push_back(
        kv::Put(ColumnFamily::kMeta, ZoneRulesKey(zone.name()), EncodeRules(KeptRules(zone, now))));
  return group;
}

SwitchPlan PlanSwitch(absl::string_view old_revision, absl::string_view revision,
                      const RulesByName& kept, const std::vector<cron::Zone>& zones,
                      absl::Time now) {
  SwitchPlan plan;
  plan.group.conditions = {RevisionIs(old_revision)};
  plan.group.mutations = {
      kv::Put(ColumnFamily::kMeta, std::string(kRevisionKey), std::string(revision))};
  Switch change;
  change.old_revision = std::string(old_revision);
  change.new_revision = std::string(revision);
  for (const cron::Zone& zone : zones) {
    ZoneRules rules = KeptRules(zone, now);
    const auto before = kept.find(zone.name());
    const bool known = before != kept.end();
    if (known && !SameRules(before->second, rules, now + kSwitchReach)) {
      change.before.insert(*before);
      plan.moved.push_back(zone.name());
    }
    if (!known || !SameRules(before->second, rules) || before->second.end < now + kKeptAtLeast)
      plan.group.mutations.push_back(
          kv::Put(ColumnFamily::kMeta, ZoneRulesKey(zone.name()), EncodeRules(rules)));
  }
  plan.group.mutations.push_back({.cf = ColumnFamily::kMeta,
                                  .kind = Mutation::Kind::kPutStamped,
                                  .key = std::string(kSwitchKey),
                                  .value = EncodeSwitch(change),
                                  .stamp_offset = kSwitchStampOffset});
  return plan;
}

}  // namespace escapement::tzdata
