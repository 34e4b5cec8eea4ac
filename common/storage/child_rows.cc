#include "common/storage/child_rows.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/cron/cron_expression.h"
#include "common/cron/zone.h"
#include "common/kv/group_parts.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {
namespace {

static_assert(kAnyHour == cron::kAnyPlace && kAnyMinute == cron::kAnyPlace);

absl::StatusOr<cron::TimetableSpec> SpecOf(const std::string& cron, absl::string_view zone_name,
                                           const storage::v1::TimingRecord& timing) {
  absl::StatusOr<cron::Zone> zone =
      cron::Zone::Load(zone_name.empty() ? absl::string_view("UTC") : zone_name);
  if (!zone.ok()) return zone.status();
  cron::TimetableSpec spec;
  spec.zone = *std::move(zone);
  if (!cron.empty()) {
    absl::StatusOr<cron::CronExpression> expression = cron::ParseCron(cron);
    if (!expression.ok()) return expression.status();
    spec.cron = *std::move(expression);
  }
  spec.every = absl::Microseconds(timing.interval().every_micros());
  spec.anchor = FromMicros(timing.interval().anchor_micros());
  spec.policy.gap = static_cast<cron::GapPolicy>(timing.gap());
  spec.policy.overlap = static_cast<cron::OverlapPolicy>(timing.fold());
  for (const std::string& text : timing.exclusions()) {
    absl::StatusOr<cron::CronExpression> exclusion = cron::ParseExclusion(text);
    if (!exclusion.ok()) return exclusion.status();
    spec.exclusions.push_back(*std::move(exclusion));
  }
  if (timing.start_micros() != 0) spec.start = FromMicros(timing.start_micros());
  if (timing.end_micros() != 0) spec.end = FromMicros(timing.end_micros());
  return spec;
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
  absl::StatusOr<cron::TimetableSpec> spec =
      SpecOf(definition.cron(), definition.time_zone(), definition.timing());
  if (!spec.ok()) return spec.status();
  spec->end = std::min(spec->end, finish);
  for (const int64_t micros : definition.timing().times_micros())
    spec->times.push_back(FromMicros(micros));
  return cron::Timetable(*std::move(spec));
}

absl::StatusOr<cron::Timetable> TimetableOf(const storage::v1::ChildRecord& child,
                                            absl::string_view zone) {
  absl::StatusOr<cron::TimetableSpec> spec = SpecOf(child.cron(), zone, child.timing());
  if (!spec.ok()) return spec.status();
  return cron::Timetable(*std::move(spec));
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
  for (const cron::Place& place : cron::ChildPlaces(expression)) {
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
  for (const cron::Place& place : cron::ChildPlaces(*timetable.spec().cron)) {
    out.push_back(
        kv::Delete(kv::ColumnFamily::kChildren,
                   EncodeChildKey(ChildKeyOf(uid, timetable.spec().zone.name(), place, layout))));
  }
}

}  // namespace escapement
