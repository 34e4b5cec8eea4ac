#include "services/emitter/emission/child_evaluator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace {

absl::Status Broken(const storage::v1::ChildRecord& record, absl::string_view zone) {
  return absl::DataLossError(absl::StrCat("child of schedule ", record.schedule_id(), " in \"",
                                          zone, "\" with cron \"", record.cron(), "\""));
}

absl::Time StartOf(const storage::v1::ChildRecord& record) {
  const int64_t start = record.timing().start_micros();
  return start == 0 ? absl::InfinitePast() : FromMicros(start);
}

absl::Time EndOf(const storage::v1::ChildRecord& record) {
  const int64_t end = record.timing().end_micros();
  return end == 0 ? absl::InfiniteFuture() : FromMicros(end);
}

}  // namespace

void AppendTimetableKey(const storage::v1::ChildRecord& record, const std::string& zone,
                        std::string& out) {
  constexpr absl::string_view kEnd("\0", 1);
  absl::StrAppend(&out, zone, kEnd, record.cron(), kEnd);
  if (!record.has_timing()) return;
  const storage::v1::TimingRecord& timing = record.timing();
  absl::StrAppend(&out, timing.gap(), ",", timing.fold(), ",", timing.interval().every_micros(),
                  ",", timing.interval().anchor_micros());
  for (const std::string& exclusion : timing.exclusions()) absl::StrAppend(&out, kEnd, exclusion);
  if (timing.has_calendar()) {
    // Its days may be long.
    absl::StrAppend(&out, kEnd, timing.calendar().on_excluded(),
                    StableHash128(timing.calendar().days().SerializeAsString()).bytes());
  }
}

cron::Timetable Bounded(const cron::Timetable& timetable, const storage::v1::ChildRecord& record) {
  cron::TimetableSpec spec = timetable.spec();
  spec.start = StartOf(record);
  spec.end = EndOf(record);
  return cron::Timetable(std::move(spec));
}

bool OfList(const storage::v1::ChildRecord& record) {
  return record.cron().empty() && record.timing().interval().every_micros() <= 0;
}

absl::StatusOr<const ChildEvaluator::Calendar*> ChildEvaluator::CalendarOf(
    const std::string& zone, const storage::v1::ChildRecord& record) {
  if (last_ != nullptr && !record.has_timing() && record.cron() == last_cron_ && zone == last_zone_)
    return last_;
  ASSIGN_OR_RETURN(const Calendar* calendar, FindCalendar(zone, record));
  if (record.has_timing()) return calendar;
  last_ = calendar;
  last_zone_ = zone;
  last_cron_ = record.cron();
  return calendar;
}

absl::StatusOr<const ChildEvaluator::Calendar*> ChildEvaluator::FindCalendar(
    const std::string& zone, const storage::v1::ChildRecord& record) {
  calendar_key_.clear();
  AppendTimetableKey(record, zone, calendar_key_);
  if (const auto it = calendars_.find(calendar_key_); it != calendars_.end())
    return it->second.get();
  absl::StatusOr<cron::Timetable> timetable = TimetableOf(record, zone);
  if (!timetable.ok() || !timetable->calendar()) return Broken(record, zone);
  cron::TimetableSpec spec = timetable->spec();
  spec.start = absl::InfinitePast();
  spec.end = absl::InfiniteFuture();
  const tzdata::MovedZone* moved = rules_ == nullptr ? nullptr : rules_->moved->Find(zone);
  if (moved != nullptr && rules_->by_former) {
    spec.zone = moved->before();
    moved = nullptr;
  }
  absl::Time begin = begin_;
  if (moved != nullptr && rules_->first)
    begin = std::min(begin, moved->ReadFrom(rules_->frontier.emitted_to));
  auto calendar = std::make_unique<Calendar>(Calendar{cron::Timetable(std::move(spec)), {}, moved});
  // One window holds at most one occurrence a second, so this is bounded by the window (and by how
  // far a change of rules can move what is in it).
  for (const cron::Occurrence& o :
       calendar->timetable.Enumerate(begin, end_, std::numeric_limits<size_t>::max())) {
    Firing& firing = calendar->firings.emplace_back(
        Firing{o, calendar->timetable.IdOf(o), calendar->timetable.PlaceOf(o), std::nullopt});
    if (moved != nullptr) firing.before = moved->Before(calendar->timetable, o);
  }
  if (calendars_.size() >= kWindowTimetablesMax) {
    calendars_.clear();
    last_ = nullptr;
  }
  return calendars_.emplace(calendar_key_, std::move(calendar)).first->second.get();
}

bool ChildEvaluator::Owed(const Calendar& calendar, const Firing& firing,
                          const storage::v1::ChildRecord& record) const {
  const absl::Time instant = firing.occurrence.instant;
  const absl::Time from = FromMicros(record.from_micros());
  const absl::Time start = StartOf(record), end = EndOf(record);
  if (instant < start || instant >= end) return false;
  if (calendar.moved == nullptr || from > rules_->made_to())
    return instant >= begin_ && instant >= from;
  std::optional<absl::Time> before = firing.before;
  if (before && (*before < start || *before >= end)) before.reset();
  // Before `from` somebody else has emitted it by the former rules.
  return calendar.moved->Emits(before, instant, std::max(rules_->frontier.emitted_to, from));
}

absl::StatusOr<ChildOccurrences> ChildEvaluator::OfCalendar(const ChildKey& key,
                                                            const storage::v1::ChildRecord& record,
                                                            const OccurrenceSource& source) {
  const auto place = PlaceOf(key);
  if (!place) return Broken(record, key.expression.zone);
  ASSIGN_OR_RETURN(const Calendar* calendar, CalendarOf(key.expression.zone, record));
  ChildOccurrences result;
  result.timetable = &calendar->timetable;
  for (const Firing& firing : calendar->firings) {
    const absl::Time instant = firing.occurrence.instant;
    if (firing.place != *place || !Owed(*calendar, firing, record)) continue;
    result.occurrences.push_back({.id = firing.id,
                                  .nominal_time = instant,
                                  .launch_time = LaunchTimeOf(source, firing.id, instant)});
  }
  return result;
}

absl::StatusOr<ChildOccurrences> ChildEvaluator::OfInstant(const InstantChildKey& key,
                                                           const storage::v1::ChildRecord& record,
                                                           const OccurrenceSource& source,
                                                           size_t max) {
  absl::StatusOr<cron::Timetable> timetable = TimetableOf(record, record.time_zone());
  if (!timetable.ok() || timetable->calendar()) return Broken(record, record.time_zone());
  const bool list = OfList(record);
  if (list) {
    cron::TimetableSpec spec = timetable->spec();
    spec.times = {key.instant};
    instants_.emplace(std::move(spec));
  } else {
    instants_ = *std::move(timetable);
  }
  ChildOccurrences result;
  result.timetable = &*instants_;
  const absl::Time from = std::max(key.instant, FromMicros(record.from_micros()));
  for (const cron::Occurrence& o : instants_->Enumerate(from, end_, max))
    result.occurrences.push_back(ToEmitted(source, *instants_, o));
  if (list) return result;
  const absl::Time after = result.occurrences.size() < max
                               ? std::max(end_, from)
                               : result.occurrences.back().nominal_time + absl::Microseconds(1);
  if (const auto next = instants_->FirstAtOrAfter(after)) result.next = next->instant;
  return result;
}

}  // namespace escapement::emitter
