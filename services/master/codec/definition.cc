#include "services/master/codec/definition.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"

namespace escapement::master {
namespace {

// The field that says when it fires.
absl::string_view WhenField(const storage::v1::DefinitionRecord& record) {
  const storage::v1::TimingRecord& timing = record.timing();
  if (timing.has_cron_fields()) return "cron_fields";
  if (timing.has_interval()) return "interval";
  return timing.times_micros().empty() ? "cron" : "times";
}

bool Fires(cron::TimetableSpec spec) {
  // An interval's last instant may lie beyond the years in which exclusions match.
  if (!spec.cron.has_value()) spec.end = std::min(spec.end, absl::FromUnixSeconds(cron::kLocalEnd));
  return cron::Timetable(std::move(spec)).FirstAtOrAfter(absl::InfinitePast()).has_value();
}

}  // namespace

void FillAnchor(Definition& definition, absl::Time schedule_create_time) {
  if (!definition.anchor_missing) return;
  definition.anchor_missing = false;
  const int64_t anchor = ToMicros(schedule_create_time);
  definition.record.mutable_timing()->mutable_interval()->set_anchor_micros(anchor);
  cron::TimetableSpec spec = definition.timetable.spec();
  spec.anchor = FromMicros(anchor);
  definition.timetable = cron::Timetable(std::move(spec));
}

absl::Status CheckFires(const Definition& definition, const TimingFields& fields) {
  cron::TimetableSpec spec = definition.timetable.spec();
  if (Fires(spec)) return absl::OkStatus();
  const bool ends = spec.end != absl::InfiniteFuture();
  spec.exclusions.clear();
  if (Fires(spec))
    return ImpossibleExpression(fields.Of("exclusions"), "leave no occurrence at all");
  spec.start = absl::InfinitePast();
  spec.end = absl::InfiniteFuture();
  if (Fires(spec)) {
    return ImpossibleExpression(fields.Of(ends ? fields.end_time : fields.start_time),
                                "leaves no occurrence at all");
  }
  return ImpossibleExpression(fields.Of(WhenField(definition.record)));
}

absl::Status CheckFiresAfter(const Definition& definition, absl::Time now,
                             const TimingFields& fields) {
  if (definition.timetable.FirstAfter(now).has_value()) return absl::OkStatus();
  if (!definition.record.timing().times_micros().empty())
    return InvalidField(fields.Of("times"), "must hold a time that has not passed");
  const bool ended = definition.timetable.spec().end <= now;
  return InvalidField(
      fields.Of(ended ? absl::string_view(fields.end_time) : WhenField(definition.record)),
      ended ? "has passed" : "every occurrence has passed");
}

absl::StatusOr<Definition> LoadDefinition(storage::v1::DefinitionRecord record) {
  absl::StatusOr<cron::Timetable> timetable = TimetableOf(record);
  if (!timetable.ok()) {
    return BrokenRecord(
        absl::StrCat("version ", record.version(), " of schedule ", record.schedule_id()));
  }
  Definition definition;
  definition.record = std::move(record);
  definition.timetable = *std::move(timetable);
  return definition;
}

}  // namespace escapement::master
