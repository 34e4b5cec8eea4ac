// How the windows of a partition are judged over which the rules of zones have changed
// (common/tzdata/rederive.h).
//
// Pure.

#ifndef SERVICES_EMITTER_EMISSION_RULES_CHANGE_H_
#define SERVICES_EMITTER_EMISSION_RULES_CHANGE_H_

#include <algorithm>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::emitter {

struct RulesChange {
  std::shared_ptr<const tzdata::MovedZones> moved;
  // The window was begun by the former rules and is finished by them; the rest does not apply.
  bool by_former = false;
  // How far the former rules have emitted the partition.
  tzdata::PartitionFrontier frontier = {};
  // Nothing has been emitted by the present rules: the window also brings what they have moved to
  // before its begin.
  bool first = false;

  // Children whose `from` is later were made under the present rules.
  absl::Time made_to() const { return std::max(frontier.planned_to, moved->time()); }
  // Later occurrences need not be judged.
  absl::Time judge_to() const { return moved->JudgeTo(std::max(frontier.emitted_to, made_to())); }
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_RULES_CHANGE_H_
