#include "common/storage/children_table.h"

#include "common/base/key_codec.h"

namespace escapement {
namespace {

enum class Checkpoint : uint8_t {
  kPlannedTo = 0,
  kEmittedTo = 1,
  kCursor = 2,
  kActiveRun = 3,
  kInUseMark = 4,
  kLaunch = 5
};

constexpr uint8_t kInstantClass = 6;  // the classes of cron::LaunchClass are smaller

std::string CheckpointKey(uint16_t partition, Checkpoint kind) {
  return KeyWriter().U16(partition).U8(static_cast<uint8_t>(kind)).Take();
}

ExpressionKey ReadExpression(KeyReader& reader) {
  ExpressionKey expression;
  expression.partition = reader.U16();
  expression.zone = reader.Text();
  expression.expression_class = reader.U8();
  expression.date_value = reader.U16();
  return expression;
}

}  // namespace

std::string ChildrenPartitionPrefix(uint16_t partition) {
  return KeyWriter().U16(partition).Take();
}

std::string ExpressionPrefix(const ExpressionKey& expression) {
  return KeyWriter(ChildrenPartitionPrefix(expression.partition))
      .Text(expression.zone)
      .U8(expression.expression_class)
      .U16(expression.date_value)
      .Take();
}

std::string ChildPrefix(const ExpressionKey& expression, uint8_t hour, uint8_t minute) {
  return KeyWriter(ExpressionPrefix(expression)).U8(hour).U8(minute).Take();
}

std::string EncodeChildKey(const ChildKey& key) {
  return KeyWriter(ChildPrefix(key.expression, key.hour, key.minute)).Id(key.uid).Take();
}

std::optional<ChildKey> DecodeChildKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  ChildKey key;
  key.expression = ReadExpression(reader);
  key.hour = reader.U8();
  key.minute = reader.U8();
  key.uid = reader.Id();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string InstantChildPrefix(uint16_t partition) {
  return KeyWriter(ChildrenPartitionPrefix(partition)).Text("").U8(kInstantClass).Take();
}

std::string InstantChildrenFrom(uint16_t partition, absl::Time time) {
  return KeyWriter(InstantChildPrefix(partition)).Time(time).Take();
}

std::string EncodeInstantChildKey(const InstantChildKey& key) {
  return KeyWriter(InstantChildrenFrom(key.partition, key.instant)).Id(key.uid).Take();
}

std::optional<InstantChildKey> DecodeInstantChildKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  InstantChildKey key;
  key.partition = reader.U16();
  if (!reader.Text().empty() || reader.U8() != kInstantClass) return std::nullopt;
  key.instant = reader.Time();
  key.uid = reader.Id();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::optional<ExpressionKey> DecodeExpressionKey(absl::string_view in_use_key) {
  KeyReader reader(in_use_key);
  const ExpressionKey expression = ReadExpression(reader);
  if (!reader.done()) return std::nullopt;
  return expression;
}

std::string PlannedToKey(uint16_t partition) {
  return CheckpointKey(partition, Checkpoint::kPlannedTo);
}
std::string EmittedToKey(uint16_t partition) {
  return CheckpointKey(partition, Checkpoint::kEmittedTo);
}
std::string CursorKey(uint16_t partition) { return CheckpointKey(partition, Checkpoint::kCursor); }

std::string ActiveRunPrefix(uint16_t partition) {
  return CheckpointKey(partition, Checkpoint::kActiveRun);
}

std::string ActiveRunKey(uint16_t partition, const Uid& uid, absl::string_view occurrence) {
  return KeyWriter(ActiveRunPrefix(partition)).Id(uid).Text(occurrence).Take();
}

std::optional<ActiveRun> DecodeActiveRunKey(absl::string_view key) {
  KeyReader reader(key);
  ActiveRun run;
  run.partition = reader.U16();
  if (reader.U8() != static_cast<uint8_t>(Checkpoint::kActiveRun)) return std::nullopt;
  run.uid = reader.Id();
  run.occurrence = reader.Text();
  if (!reader.done()) return std::nullopt;
  return run;
}

std::string LaunchPrefix(uint16_t partition) {
  return CheckpointKey(partition, Checkpoint::kLaunch);
}

std::string EncodeLaunchKey(const LaunchKey& key) {
  return KeyWriter(LaunchPrefix(key.partition))
      .Time(key.launch_time)
      .Id(key.uid)
      .Text(key.occurrence)
      .Take();
}

std::optional<LaunchKey> DecodeLaunchKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  LaunchKey key;
  key.partition = reader.U16();
  if (reader.U8() != static_cast<uint8_t>(Checkpoint::kLaunch)) return std::nullopt;
  key.launch_time = reader.Time();
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string InUseMarkKey(uint16_t partition) {
  return CheckpointKey(partition, Checkpoint::kInUseMark);
}

std::string EncodeCursor(const EmissionCursor& cursor) {
  return KeyWriter().Time(cursor.window_end).Raw(cursor.last_key).Take();
}

std::optional<EmissionCursor> DecodeCursor(absl::string_view value) {
  KeyReader reader(value);
  EmissionCursor cursor;
  cursor.window_end = reader.Time();
  if (!reader.ok()) return std::nullopt;
  cursor.last_key = std::string(reader.Rest());
  return cursor;
}

std::string EncodeCheckpoint(absl::Time time) { return KeyWriter().Time(time).Take(); }

absl::Time DecodeCheckpoint(absl::string_view value) {
  KeyReader reader(value);
  const absl::Time time = reader.Time();
  return reader.done() ? time : absl::InfinitePast();
}

}  // namespace escapement
