// The column families `children`, `in_use` and `checkpoints`.
//
// children: partition (u16), zone (text), class (u8), date value (u16), hour (u8), minute (u8), uid
// → ChildRecord; of intervals and lists of instants: partition, empty zone, class 6 (u8), next
// instant (time), uid → ChildRecord
// in_use: partition, zone, class, date value → empty; present while any child has this prefix (but
// for class 6)
// checkpoints: partition, kind (u8) → 8 bytes, big-endian microseconds (planned_to, emitted_to) or
// a cursor; under kind 3 also uid, occurrence (text) → empty: the run has not been closed; kind 4:
// a mark that changes with every put of in_use; under kind 5 also launch time, uid, occurrence
// (text) → LaunchRecord
//
// Who first needs the checkpoints of a partition (an emitter that takes it, or an updater before
// any emitter has run) makes both with its own `now` under the condition that they are absent: what
// falls due before the first emitter starts is then caught up like any other downtime.

#ifndef COMMON_STORAGE_CHILDREN_TABLE_H_
#define COMMON_STORAGE_CHILDREN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

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

// The child of an interval, keyed by its next instant that has not been emitted, or of one instant
// of a list.
struct InstantChildKey {
  uint16_t partition = 0;
  absl::Time instant;
  Uid uid;

  friend bool operator==(const InstantChildKey&, const InstantChildKey&) = default;
};
std::string EncodeInstantChildKey(const InstantChildKey& key);
// nullopt for every other child's key.
std::optional<InstantChildKey> DecodeInstantChildKey(absl::string_view key);
// All such children of a partition / where those with an instant at or after `time` begin.
std::string InstantChildPrefix(uint16_t partition);
std::string InstantChildrenFrom(uint16_t partition, absl::Time time);

std::string EncodeChildKey(const ChildKey& key);
// nullopt for the child of an instant.
std::optional<ChildKey> DecodeChildKey(absl::string_view key);
// Of an expression (its `in_use` key) / of an hour and minute of it.
std::string ExpressionPrefix(const ExpressionKey& expression);
std::string ChildPrefix(const ExpressionKey& expression, uint8_t hour, uint8_t minute);
std::optional<ExpressionKey> DecodeExpressionKey(absl::string_view in_use_key);
std::string ChildrenPartitionPrefix(uint16_t partition);

std::string PlannedToKey(uint16_t partition);
std::string EmittedToKey(uint16_t partition);
std::string CursorKey(uint16_t partition);
// Present as long as events of a run of more than one event have not ended.
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

// An occurrence that waits for its launch, for its schedule has an overlap policy.
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

// Written with another value by every group that puts `in_use` keys of the partition, so that they
// need not be read again.
std::string InUseMarkKey(uint16_t partition);

// How far the emitter has come within a window that takes several commits: children up to
// `last_key` are done for [emitted_to, window_end).
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

}  // namespace escapement

#endif  // COMMON_STORAGE_CHILDREN_TABLE_H_
