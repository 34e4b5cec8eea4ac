// The rows by which a cron schedule stands in the children index: made and removed by the master,
// read by the emitter.
//
// Pure.

#ifndef COMMON_STORAGE_CHILD_ROWS_H_
#define COMMON_STORAGE_CHILD_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/launch_expression.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"

namespace escapement {

namespace storage::v1 {
class DefinitionRecord;
}

// When a definition fires.
struct CronTrigger {
  cron::CronExpression expression;
  cron::Zone zone;
  cron::DstPolicy policy;
};
// INVALID_ARGUMENT as the parser and Zone::Load; an empty zone is UTC.
absl::StatusOr<CronTrigger> TriggerOf(const storage::v1::DefinitionRecord& definition);

// The text of one of its occurrences.
std::string OccurrenceIdOf(const CronTrigger& trigger, const cron::Occurrence& occurrence);

// Where a child stands.
ChildKey ChildKeyOf(const Uid& uid, absl::string_view zone, const cron::Place& place,
                    const kv::Layout& layout);
// The reverse; nullopt if its class is none.
std::optional<cron::Place> PlaceOf(const ChildKey& key);

// Appends puts of all children of the definition, of their in_use keys and of the in_use mark to
// `out`. `trigger` is TriggerOf the definition; `from` is the later of planned_to and now: what is
// due before it was emitted with the change or is not owed.
void AddChildren(const storage::v1::DefinitionRecord& definition, const CronTrigger& trigger,
                 absl::Time from, const kv::Layout& layout, std::vector<kv::Mutation>* out);

// Appends deletes of all children of the uid that AddChildren made for this trigger. The in_use
// keys stay: the emitter removes those that nothing uses any more.
void RemoveChildren(const CronTrigger& trigger, const Uid& uid, const kv::Layout& layout,
                    std::vector<kv::Mutation>* out);

}  // namespace escapement

#endif  // COMMON_STORAGE_CHILD_ROWS_H_
