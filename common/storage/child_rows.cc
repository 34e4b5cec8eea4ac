#include "common/storage/child_rows.h"

#include <set>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/cron/occurrence_id.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {
namespace {

static_assert(kAnyHour == cron::kAnyPlace && kAnyMinute == cron::kAnyPlace);

kv::Mutation Change(kv::ColumnFamily cf, kv::Mutation::Kind kind, std::string key,
                    std::string value) {
  kv::Mutation mutation;
  mutation.cf = cf;
  mutation.kind = kind;
  mutation.key = std::move(key);
  mutation.value = std::move(value);
  return mutation;
}

}  // namespace

absl::StatusOr<CronTrigger> TriggerOf(const storage::v1::DefinitionRecord& definition) {
  absl::StatusOr<cron::CronExpression> expression = cron::ParseCron(definition.cron());
  if (!expression.ok()) return expression.status();
  const std::string& name = definition.time_zone();
  absl::StatusOr<cron::Zone> zone =
      cron::Zone::Load(name.empty() ? absl::string_view("UTC") : name);
  if (!zone.ok()) return zone.status();
  return CronTrigger{*expression, *std::move(zone), cron::DstPolicy()};
}

std::string OccurrenceIdOf(const CronTrigger& trigger, const cron::Occurrence& occurrence) {
  return cron::FormatCalendarOccurrence(occurrence.civil, occurrence.fold, trigger.zone.name());
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

void AddChildren(const storage::v1::DefinitionRecord& definition, const CronTrigger& trigger,
                 absl::Time from, const kv::Layout& layout, std::vector<kv::Mutation>* out) {
  const OccurrenceSource source = SourceOf(definition);
  storage::v1::ChildRecord record;
  record.set_version(source.version);
  record.set_seconds(trigger.expression.seconds);
  record.set_from_micros(ToMicros(from));
  record.set_tenant(source.tenant);
  record.set_schedule_id(source.schedule_id);
  record.set_cron(definition.cron());
  record.set_event_count(source.event_count);
  record.set_priority(source.priority);
  if (source.throttle.has_value()) *record.mutable_throttle() = *source.throttle;
  record.set_run_kept(source.run_kept);
  std::set<std::string> in_use;
  for (const cron::Place& place : cron::ChildPlaces(trigger.expression)) {
    const ChildKey key = ChildKeyOf(source.uid, trigger.zone.name(), place, layout);
    record.set_hours(place.hour == kAnyHour ? trigger.expression.hours : 0);
    record.set_minutes(place.minute == kAnyMinute ? trigger.expression.minutes : 0);
    out->push_back(Change(kv::ColumnFamily::kChildren, kv::Mutation::Kind::kPut,
                          EncodeChildKey(key), record.SerializeAsString()));
    in_use.insert(ExpressionPrefix(key.expression));
  }
  for (const std::string& key : in_use) {
    out->push_back(Change(kv::ColumnFamily::kInUse, kv::Mutation::Kind::kPut, key, std::string()));
  }
  out->push_back(Change(kv::ColumnFamily::kCheckpoints, kv::Mutation::Kind::kPut,
                        InUseMarkKey(PartitionOf(source.uid, layout.partitions)),
                        KeyWriter().Id(source.uid).U64(source.version).Time(from).Take()));
}

void RemoveChildren(const CronTrigger& trigger, const Uid& uid, const kv::Layout& layout,
                    std::vector<kv::Mutation>* out) {
  for (const cron::Place& place : cron::ChildPlaces(trigger.expression)) {
    out->push_back(Change(kv::ColumnFamily::kChildren, kv::Mutation::Kind::kDelete,
                          EncodeChildKey(ChildKeyOf(uid, trigger.zone.name(), place, layout)),
                          std::string()));
  }
}

}  // namespace escapement
