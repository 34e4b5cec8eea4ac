// The rows of a schedule in the children index. The master makes and removes them, and the emitter
// reads them.
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
#include "common/cron/launch_expression.h"
#include "common/cron/misfire.h"
#include "common/cron/timetable.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"

namespace escapement {

namespace storage::v1 {
class ChildRecord;
class DefinitionRecord;
class MisfireRecord;
class StateRecord;
}  // namespace storage::v1

// When a definition fires. There is no occurrence from `finish` on (StateRecord.finish_micros).
// INVALID_ARGUMENT as from the parser and Zone::Load; an empty zone is UTC.
absl::StatusOr<cron::Timetable> TimetableOf(const storage::v1::DefinitionRecord& definition,
                                            absl::Time finish = absl::InfiniteFuture());
// The same for a child of a definition. `zone` is the key's; if the key has none, the record's is
// used.
absl::StatusOr<cron::Timetable> TimetableOf(const storage::v1::ChildRecord& child,
                                            absl::string_view zone);
// finish_micros, or InfiniteFuture.
absl::Time FinishOf(const storage::v1::StateRecord& state);

cron::MisfirePolicy MisfirePolicyOf(const storage::v1::MisfireRecord& record);

// The key of the child at this place.
ChildKey ChildKeyOf(const Uid& uid, absl::string_view zone, const cron::Place& place,
                    const kv::Layout& layout);
// The reverse; nullopt if the class is not one of cron::LaunchClass.
std::optional<cron::Place> PlaceOf(const ChildKey& key);

// Appends puts of all children of the definition, of their in_use keys and of the in_use mark to
// `out`. `timetable` is TimetableOf(definition). `from` is the later of planned_to and now: an
// occurrence due before it was emitted with the change, or does not fire.
void AddChildren(const storage::v1::DefinitionRecord& definition, const cron::Timetable& timetable,
                 absl::Time from, const kv::Layout& layout, std::vector<kv::Mutation>& out);

// Appends deletes of all children of the uid that AddChildren made for this timetable. Everything
// before `emitted_to` must have been emitted. The in_use keys stay: the emitter removes those
// without a child.
void RemoveChildren(const cron::Timetable& timetable, const Uid& uid, absl::Time emitted_to,
                    const kv::Layout& layout, std::vector<kv::Mutation>& out);

}  // namespace escapement

#endif  // COMMON_STORAGE_CHILD_ROWS_H_
