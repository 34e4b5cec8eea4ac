// The column families `children`, `in_use` and `checkpoints`.
//
// children of cron schedules: partition (u16), zone (text), class (u8), date value (u16), hour
// (u8), minute (u8), uid → ChildRecord.
//
// children of intervals and lists of instants: partition, empty zone, class 6 (u8), next instant
// (time), uid → ChildRecord.
//
// in_use: partition, zone, class, date value → empty. Present while any child has this prefix.
// Class 6 has none.
//
// checkpoints: partition, kind (u8), and then by kind:
// - 0 planned_to, 1 emitted_to → 8 bytes, big-endian microseconds
// - 2 → a cursor
// - 3, uid, occurrence (text) → empty: the run is not closed yet
// - 4 → a mark that changes with every put of in_use
// - 5, launch time, uid, occurrence (text) → LaunchRecord
//
// The first process that needs the checkpoints of a partition creates both with its own `now`,
// under the condition that they are absent. It is an emitter that takes the partition, or a master
// that changes a schedule before any emitter has run. Occurrences that fall due before the first
// emitter starts are then caught up, as after any downtime.

#ifndef COMMON_STORAGE_CHILDREN_TABLE_H_
#define COMMON_STORAGE_CHILDREN_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/launch_expression.h"
#include "common/cron/timetable.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"

namespace escapement {

inline constexpr uint8_t kAnyHour = 255;
inline constexpr uint8_t kAnyMinute = 255;

// One LaunchExpression: class and date value of the most significant restricted field.
struct ExpressionKey {
  uint16_t partition = 0;
  std::string zone;
  uint8_t expression_class = 0;  // cron::LaunchClass
  // Month × 32 + day, month × 8 + weekday, day, weekday (0 = Sunday), or 0.
  uint16_t date_value = 0;

  friend bool operator==(const ExpressionKey&, const ExpressionKey&) = default;
};

struct ChildKey {
  ExpressionKey expression;
  uint8_t hour = kAnyHour;
  uint8_t minute = kAnyMinute;
  Uid uid;

  friend bool operator==(const ChildKey&, const ChildKey&) = default;
};

// The child of an interval, keyed by its next instant that is not emitted yet, or the child of one
// instant of a list.
struct InstantChildKey {
  uint16_t partition = 0;
  absl::Time instant;
  Uid uid;

  friend bool operator==(const InstantChildKey&, const InstantChildKey&) = default;
};
std::string EncodeInstantChildKey(const InstantChildKey& key);
// nullopt for every other child's key.
std::optional<InstantChildKey> DecodeInstantChildKey(absl::string_view key);
// InstantChildPrefix: the prefix of all such children of a partition. InstantChildrenFrom: the
// first key with an instant at or after `time`.
std::string InstantChildPrefix(uint16_t partition);
std::string InstantChildrenFrom(uint16_t partition, absl::Time time);

std::string EncodeChildKey(const ChildKey& key);
// nullopt for the child of an instant.
std::optional<ChildKey> DecodeChildKey(absl::string_view key);
// The prefix of one LaunchExpression (ExpressionPrefix, which is also its `in_use` key), and of one
// hour and minute in it (ChildPrefix).
std::string ExpressionPrefix(const ExpressionKey& expression);
std::string ChildPrefix(const ExpressionKey& expression, uint8_t hour, uint8_t minute);
std::optional<ExpressionKey> DecodeExpressionKey(absl::string_view in_use_key);
std::string ChildrenPartitionPrefix(uint16_t partition);

std::string PlannedToKey(uint16_t partition);
std::string EmittedToKey(uint16_t partition);
std::string CursorKey(uint16_t partition);
// Present while the run has a run record and is not closed.
std::string ActiveRunKey(uint16_t partition, const Uid& uid, absl::string_view occurrence);
std::string ActiveRunPrefix(uint16_t partition);

struct ActiveRun {
  uint16_t partition = 0;
  Uid uid;
  std::string occurrence;

  friend bool operator==(const ActiveRun&, const ActiveRun&) = default;
};
// nullopt if the key is another checkpoint.
std::optional<ActiveRun> DecodeActiveRunKey(absl::string_view key);

// An occurrence of a schedule with an overlap policy that waits for its launch.
struct LaunchKey {
  uint16_t partition = 0;
  absl::Time launch_time;
  Uid uid;
  std::string occurrence;

  friend bool operator==(const LaunchKey&, const LaunchKey&) = default;
};
std::string EncodeLaunchKey(const LaunchKey& key);
// nullopt if the key is another checkpoint.
std::optional<LaunchKey> DecodeLaunchKey(absl::string_view key);
std::string LaunchPrefix(uint16_t partition);

// Every group that puts `in_use` keys of the partition also writes another value here. So the
// emitter reads them again only if the mark has changed.
std::string InUseMarkKey(uint16_t partition);

// The emitter's progress within a window that takes several commits: children up to `last_key` are
// done for [emitted_to, window_end).
struct EmissionCursor {
  absl::Time window_end;
  std::string last_key;

  friend bool operator==(const EmissionCursor&, const EmissionCursor&) = default;
};
std::string EncodeCursor(const EmissionCursor& cursor);
std::optional<EmissionCursor> DecodeCursor(absl::string_view value);

std::string EncodeCheckpoint(absl::Time time);
// InfinitePast if `value` is malformed.
absl::Time DecodeCheckpoint(absl::string_view value);

// The rows of a schedule in the children index. The master makes and removes them, and the emitter
// reads them.
//
// Pure.

namespace storage::v1 {
class CalendarDaysRecord;
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
// The days of a calendar. INVALID_ARGUMENT as from ParseDayRule. Its depth is bounded by the
// writer.
absl::StatusOr<std::shared_ptr<const cron::DaySet>> DaySetOf(
    const storage::v1::CalendarDaysRecord& days);
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

#endif  // COMMON_STORAGE_CHILDREN_TABLE_H_
