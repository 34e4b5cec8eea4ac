#include "common/storage/children_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/cron_expression.h"
#include "common/cron/zone.h"
#include "common/kv/group_parts.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

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

constexpr absl::string_view kNoZone("\0\1", 2);  // as KeyWriter writes an empty text
constexpr uint8_t kInstantClass = 6;             // the classes of cron::LaunchClass are smaller

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
  // Most keys have a zone here: it need not be read.
  if (!absl::StartsWith(reader.Rest(), kNoZone) || !reader.Text().empty() ||
      reader.U8() != kInstantClass)
    return std::nullopt;
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

namespace {

static_assert(kAnyHour == cron::kAnyPlace && kAnyMinute == cron::kAnyPlace);

absl::StatusOr<cron::TimetableSpec> SpecOf(const std::string& cron, absl::string_view zone_name,
                                           const storage::v1::TimingRecord& timing) {
  ASSIGN_OR_RETURN(cron::Zone zone,
                   cron::Zone::Load(zone_name.empty() ? absl::string_view("UTC") : zone_name));
  cron::TimetableSpec spec;
  spec.zone = std::move(zone);
  if (!cron.empty()) {
    ASSIGN_OR_RETURN(cron::CronExpression expression, cron::ParseCron(cron));
    spec.cron = std::move(expression);
  }
  spec.every = absl::Microseconds(timing.interval().every_micros());
  spec.anchor = FromMicros(timing.interval().anchor_micros());
  spec.policy.gap = static_cast<cron::GapPolicy>(timing.gap());
  spec.policy.fold = static_cast<cron::FoldPolicy>(timing.fold());
  for (const std::string& text : timing.exclusions()) {
    ASSIGN_OR_RETURN(cron::CronExpression exclusion, cron::ParseExclusion(text));
    spec.exclusions.push_back(std::move(exclusion));
  }
  if (timing.has_calendar()) {
    ASSIGN_OR_RETURN(spec.days_off, DaySetOf(timing.calendar().days()));
    spec.on_excluded = static_cast<cron::OnExcluded>(timing.calendar().on_excluded());
  }
  if (timing.start_micros() != 0) spec.start = FromMicros(timing.start_micros());
  if (timing.end_micros() != 0) spec.end = FromMicros(timing.end_micros());
  return spec;
}

// Each number is the difference from the one before; the first is itself.
std::vector<int32_t> SumsOf(const google::protobuf::RepeatedField<uint32_t>& differences) {
  std::vector<int32_t> sums;
  uint32_t sum = 0;
  for (const uint32_t difference : differences)
    sums.push_back(static_cast<int32_t>(sum += difference));
  return sums;
}

// The parts of the timing that every child repeats.
storage::v1::TimingRecord ChildTiming(const storage::v1::DefinitionRecord& definition,
                                      const cron::Timetable& timetable) {
  storage::v1::TimingRecord timing = definition.timing();
  timing.clear_times_micros();
  timing.clear_cron_fields();
  timing.clear_max_runs();
  if (timetable.spec().end != absl::InfiniteFuture())
    timing.set_end_micros(ToMicros(timetable.spec().end));
  return timing;
}

// The instants under which the children of an interval or a list are stored, once everything before
// `from` is done.
std::vector<absl::Time> ChildInstants(const cron::Timetable& timetable, absl::Time from) {
  std::vector<absl::Time> instants;
  const bool list = !timetable.spec().times.empty();
  for (const cron::Occurrence& o :
       timetable.Enumerate(from, absl::InfiniteFuture(), list ? timetable.spec().times.size() : 1))
    instants.push_back(o.instant);
  return instants;
}

void AddInstantChildren(const OccurrenceSource& source, const cron::Timetable& timetable,
                        absl::Time from, const kv::Layout& layout, const std::string& record,
                        std::vector<kv::Mutation>& out) {
  for (const absl::Time instant : ChildInstants(timetable, from)) {
    const InstantChildKey key = {PartitionOf(source.uid, layout.partitions), instant, source.uid};
    out.push_back(kv::Put(kv::ColumnFamily::kChildren, EncodeInstantChildKey(key), record));
  }
}

}  // namespace

absl::StatusOr<cron::Timetable> TimetableOf(const storage::v1::DefinitionRecord& definition,
                                            absl::Time finish) {
  ASSIGN_OR_RETURN(cron::TimetableSpec spec,
                   SpecOf(definition.cron(), definition.time_zone(), definition.timing()));
  spec.end = std::min(spec.end, finish);
  for (const int64_t micros : definition.timing().times_micros())
    spec.times.push_back(FromMicros(micros));
  return cron::Timetable(std::move(spec));
}

absl::StatusOr<cron::Timetable> TimetableOf(const storage::v1::ChildRecord& child,
                                            absl::string_view zone) {
  ASSIGN_OR_RETURN(cron::TimetableSpec spec, SpecOf(child.cron(), zone, child.timing()));
  return cron::Timetable(std::move(spec));
}

absl::StatusOr<std::shared_ptr<const cron::DaySet>> DaySetOf(
    const storage::v1::CalendarDaysRecord& days) {
  cron::DaySet::Spec spec;
  spec.dates = SumsOf(days.dates());
  spec.except = SumsOf(days.except_dates());
  for (const std::string& text : days.rules()) {
    ASSIGN_OR_RETURN(cron::CronExpression rule, cron::ParseDayRule(text));
    spec.rules.push_back(std::move(rule));
  }
  for (const storage::v1::CalendarDaysRecord& other : days.others()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const cron::DaySet> set, DaySetOf(other));
    spec.others.push_back(std::move(set));
  }
  return std::make_shared<const cron::DaySet>(std::move(spec));
}

absl::Time FinishOf(const storage::v1::StateRecord& state) {
  return state.finish_micros() == 0 ? absl::InfiniteFuture() : FromMicros(state.finish_micros());
}

cron::MisfirePolicy MisfirePolicyOf(const storage::v1::MisfireRecord& record) {
  cron::MisfirePolicy policy;
  policy.action = static_cast<cron::MisfireAction>(record.action());
  if (record.threshold_micros() > 0)
    policy.threshold = absl::Microseconds(record.threshold_micros());
  if (record.max_catch_up() > 0) policy.max_catch_up = record.max_catch_up();
  if (record.max_age_micros() > 0) policy.max_age = absl::Microseconds(record.max_age_micros());
  return policy;
}

ChildKey ChildKeyOf(const Uid& uid, absl::string_view zone, const cron::Place& place,
                    const kv::Layout& layout) {
  ChildKey key;
  key.expression.partition = PartitionOf(uid, layout.partitions);
  key.expression.zone = std::string(zone);
  key.expression.expression_class = place.expression.ClassByte();
  key.expression.date_value = place.expression.date_value;
  key.hour = place.hour;
  key.minute = place.minute;
  key.uid = uid;
  return key;
}

std::optional<cron::Place> PlaceOf(const ChildKey& key) {
  const auto expression =
      cron::LaunchExpression::Of(key.expression.expression_class, key.expression.date_value);
  if (!expression) return std::nullopt;
  return cron::Place{*expression, key.hour, key.minute};
}

void AddChildren(const storage::v1::DefinitionRecord& definition, const cron::Timetable& timetable,
                 absl::Time from, const kv::Layout& layout, std::vector<kv::Mutation>& out) {
  const OccurrenceSource source = SourceOf(definition);
  storage::v1::ChildRecord record;
  record.set_version(source.version);
  record.set_from_micros(ToMicros(from));
  record.set_tenant(source.tenant);
  record.set_schedule_id(source.schedule_id);
  record.set_cron(definition.cron());
  record.set_event_count(source.event_count);
  record.set_priority(source.priority);
  if (source.throttle.has_value()) *record.mutable_throttle() = *source.throttle;
  record.set_run_kept(source.run_kept);
  record.set_run_overlap(source.run_overlap);
  if (definition.has_timing() || timetable.spec().end != absl::InfiniteFuture())
    *record.mutable_timing() = ChildTiming(definition, timetable);
  if (definition.has_misfire()) *record.mutable_misfire() = definition.misfire();
  if (!timetable.calendar()) {
    record.set_time_zone(timetable.spec().zone.name());
    return AddInstantChildren(source, timetable, from, layout, record.SerializeAsString(), out);
  }
  const cron::CronExpression& expression = *timetable.spec().cron;
  record.set_seconds(expression.seconds);
  std::set<std::string> in_use;
  for (const cron::Place& place : timetable.ChildPlaces()) {
    const ChildKey key = ChildKeyOf(source.uid, timetable.spec().zone.name(), place, layout);
    record.set_hours(place.hour == kAnyHour ? expression.hours : 0);
    record.set_minutes(place.minute == kAnyMinute ? expression.minutes : 0);
    out.push_back(
        kv::Put(kv::ColumnFamily::kChildren, EncodeChildKey(key), record.SerializeAsString()));
    in_use.insert(ExpressionPrefix(key.expression));
  }
  for (const std::string& key : in_use) {
    out.push_back(kv::Put(kv::ColumnFamily::kInUse, key, std::string()));
  }
  out.push_back(kv::Put(kv::ColumnFamily::kCheckpoints,
                        InUseMarkKey(PartitionOf(source.uid, layout.partitions)),
                        KeyWriter().Id(source.uid).U64(source.version).Time(from).Take()));
}

void RemoveChildren(const cron::Timetable& timetable, const Uid& uid, absl::Time emitted_to,
                    const kv::Layout& layout, std::vector<kv::Mutation>& out) {
  if (!timetable.calendar()) {
    for (const absl::Time instant : ChildInstants(timetable, emitted_to)) {
      const InstantChildKey key = {PartitionOf(uid, layout.partitions), instant, uid};
      out.push_back(kv::Delete(kv::ColumnFamily::kChildren, EncodeInstantChildKey(key)));
    }
    return;
  }
  for (const cron::Place& place : timetable.ChildPlaces()) {
    out.push_back(
        kv::Delete(kv::ColumnFamily::kChildren,
                   EncodeChildKey(ChildKeyOf(uid, timetable.spec().zone.name(), place, layout))));
  }
}

}  // namespace escapement
