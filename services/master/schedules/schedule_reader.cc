#include "services/master/schedules/schedule_reader.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/cron_expression.h"
#include "common/cron/launch_expression.h"
#include "common/cron/zone.h"
#include "common/status/errors.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/resume_decision.h"
#include "services/master/schedules/changes/schedule_warnings.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

// Definitions are read a few at a time, since each may hold a large payload.
constexpr size_t kDefinitionsAtOnce = 64;

struct DetailsOptions {
  bool payload = false;
  bool counts = false;
  bool deleted = false;  // deleted schedules, too
};

// Reads states, then definitions and counts, of schedules whose records are known. A schedule
// without state or definition was deleted or changed during the read, and is left out. Ends early,
// with `next`, once a page's bytes are read.
class DetailsRead : public std::enable_shared_from_this<DetailsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)>;
  DetailsRead(MasterContext& context, std::vector<StoredSchedule> schedules, DetailsOptions options,
              Read done)
      : context_(context),
        schedules_(std::move(schedules)),
        options_(options),
        done_(std::move(done)) {}

  void Start() {
    std::vector<kv::Key> keys;
    for (const StoredSchedule& stored : schedules_)
      keys.push_back({ColumnFamily::kStates, StateKey(stored.uid)});
    if (keys.empty()) return done_(SchedulePage());
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnStates(std::move(result));
                             });
  }

 private:
  void OnStates(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    std::vector<StoredSchedule> kept;
    for (size_t i = 0; i < schedules_.size(); ++i) {
      storage::v1::StateRecord& state = schedules_[i].state;
      if (!result->values[i].has_value()) continue;
      if (!state.ParseFromString(*result->values[i]))
        return done_(BrokenRecord("the state of a schedule"));
      if (!options_.deleted && state.kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED) continue;
      kept.push_back(std::move(schedules_[i]));
    }
    schedules_ = std::move(kept);
    ReadDefinitions();
  }

  // The next definitions, and the counts of their schedules at the same time.
  void ReadDefinitions() {
    if (next_ == schedules_.size()) return done_(std::move(page_));
    std::vector<kv::Key> keys;
    std::vector<Uid> uids;
    for (size_t i = next_; i < schedules_.size() && keys.size() < kDefinitionsAtOnce; ++i) {
      const StoredSchedule& stored = schedules_[i];
      keys.push_back(
          {ColumnFamily::kDefinitions, DefinitionKey(stored.uid, stored.state.version())});
      uids.push_back(stored.uid);
    }
    reads_left_ = options_.counts ? 2 : 1;
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->definitions_ = std::move(result);
                               self->OnRead();
                             });
    if (!options_.counts) return;
    ReadScheduleCounts(context_, uids,
                       [self = shared_from_this()](
                           absl::StatusOr<std::vector<storage::v1::RunPartRecord>> counts) {
                         self->counts_ = std::move(counts);
                         self->OnRead();
                       });
  }

  void OnRead() {
    if (--reads_left_ > 0) return;
    if (!definitions_.ok()) return done_(StoreFailed(definitions_.status()));
    if (!counts_.ok()) return done_(counts_.status());
    for (size_t i = 0; i < definitions_->values.size(); ++i) {
      const std::optional<std::string>& value = definitions_->values[i];
      StoredSchedule& stored = schedules_[next_++];
      storage::v1::DefinitionRecord record;
      if (!value.has_value()) continue;
      if (!record.ParseFromString(*value)) return done_(BrokenRecord("a definition"));
      if (!options_.payload) record.clear_payload();
      if (!budget_.Take(record)) {
        page_.next = stored.state.schedule_id();
        return done_(std::move(page_));
      }
      absl::StatusOr<Definition> definition = LoadDefinition(std::move(record));
      if (!definition.ok()) return done_(definition.status());
      definition->timetable = EndingAt(definition->timetable, FinishOf(stored.state));
      stored.definition = *std::move(definition);
      if (options_.counts) stored.counts = std::move((*counts_)[i]);
      page_.schedules.push_back(std::move(stored));
    }
    ReadDefinitions();
  }

  MasterContext& context_;
  std::vector<StoredSchedule> schedules_;
  const DetailsOptions options_;
  Read done_;
  size_t next_ = 0;  // the first whose definition is to be read
  // The reads under way, and the results of those that have ended.
  int reads_left_ = 0;
  absl::StatusOr<kv::GetResult> definitions_;
  absl::StatusOr<std::vector<storage::v1::RunPartRecord>> counts_ =
      std::vector<storage::v1::RunPartRecord>();
  SchedulePage page_;
  PageBudget budget_;
};

// Reads the schedule of the first of these rows of `schedules` that exists.
void ReadFirst(MasterContext& context, std::vector<kv::Key> rows, std::string name,
               DetailsOptions options,
               absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  context.client.MultiGet(
      std::move(rows), context.executor,
      [&context, name = std::move(name), options,
       done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        const auto found =
            std::find_if(result->values.begin(), result->values.end(),
                         [](const std::optional<std::string>& row) { return row.has_value(); });
        if (found == result->values.end()) return done(NotFound(name));
        absl::StatusOr<StoredSchedule> stored = ReadScheduleRecord(**found);
        if (!stored.ok()) return done(stored.status());
        std::vector<StoredSchedule> one;
        one.push_back(*std::move(stored));
        auto on_details = [name = std::move(name),
                           done = std::move(done)](absl::StatusOr<SchedulePage> read) mutable {
          if (!read.ok()) return done(read.status());
          if (read->schedules.empty()) return done(NotFound(name));
          done(std::move(read->schedules[0]));
        };
        std::make_shared<DetailsRead>(context, std::move(one), options, std::move(on_details))
            ->Start();
      });
}

}  // namespace

void ReadSchedule(MasterContext& context, ScheduleName name,
                  absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  const kv::Key key = {ColumnFamily::kSchedules, ScheduleKey(name.tenant, name.schedule)};
  ReadFirst(context, {key}, name.ToString(), {.payload = true, .counts = true}, std::move(done));
}

void ReadScheduleOfRuns(MasterContext& context, ScheduleName name,
                        absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done) {
  const kv::Key key = {ColumnFamily::kSchedules, ScheduleKey(name.tenant, name.schedule)};
  const kv::Key deleted = {ColumnFamily::kSchedules,
                           DeletedScheduleKey(name.tenant, name.schedule)};
  ReadFirst(context, {key, deleted}, name.ToString(), {.payload = true, .deleted = true},
            std::move(done));
}

absl::StatusOr<StoredSchedule> ReadScheduleRecord(const std::string& bytes) {
  StoredSchedule stored;
  if (!stored.record.ParseFromString(bytes) || stored.record.uid().size() != Uid::kBytes)
    return BrokenRecord("a schedule");
  stored.uid = Uid::FromBytes(stored.record.uid());
  return stored;
}

void ReadScheduleDetails(MasterContext& context, std::vector<StoredSchedule> schedules, bool counts,
                         absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)> done) {
  std::make_shared<DetailsRead>(context, std::move(schedules), DetailsOptions{.counts = counts},
                                std::move(done))
      ->Start();
}

namespace {

using storage::v1::RunPartRecord;

class CountsRead : public std::enable_shared_from_this<CountsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<std::vector<RunPartRecord>>)>;
  CountsRead(MasterContext& context, size_t schedules, Read done)
      : context_(context), sums_(schedules), left_(schedules), done_(std::move(done)) {}

  void Start(const std::vector<Uid>& uids) {
    if (uids.empty()) return done_(std::move(sums_));
    for (size_t i = 0; i < uids.size(); ++i) {
      kv::ScanRequest scan;
      scan.cf = kv::ColumnFamily::kRunParts;
      scan.begin = ScheduleCountsPrefix(uids[i]);
      scan.end = PrefixEnd(scan.begin);
      scan.limit = context_.RunPartsMax();
      context_.client.Scan(std::move(scan), context_.executor,
                           [self = shared_from_this(), i](absl::StatusOr<kv::ScanResult> parts) {
                             self->OnParts(i, parts);
                           });
    }
  }

 private:
  void OnParts(size_t schedule, const absl::StatusOr<kv::ScanResult>& parts) {
    if (!parts.ok()) {
      status_.Update(StoreFailed(parts.status()));
    } else {
      for (const kv::Entry& entry : parts->entries) {
        RunPartRecord part;
        if (!part.ParseFromString(entry.value)) {
          status_.Update(BrokenRecord("the counts of a schedule"));
        } else {
          AddScheduleCounts(part, sums_[schedule]);
        }
      }
    }
    if (--left_ > 0) return;
    if (!status_.ok()) return done_(status_);
    done_(std::move(sums_));
  }

  MasterContext& context_;
  std::vector<RunPartRecord> sums_;
  size_t left_;  // schedules that are being read
  absl::Status status_;
  Read done_;
};

}  // namespace

void ReadScheduleCounts(MasterContext& context, const std::vector<Uid>& uids,
                        CountsRead::Read done) {
  std::make_shared<CountsRead>(context, uids.size(), std::move(done))->Start(uids);
}

namespace {

std::string LocalTime(absl::Time time, const cron::Zone& zone) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*S%Ez", time, zone.time_zone());
}

// "Every 2 hours", in the largest unit that divides it.
std::string DescribeInterval(absl::Duration every) {
  struct Unit {
    absl::Duration size;
    const char* name;
  };
  for (const Unit& unit : {Unit{absl::Hours(24), "day"}, Unit{absl::Hours(1), "hour"},
                           Unit{absl::Minutes(1), "minute"}, Unit{absl::Seconds(1), "second"}}) {
    absl::Duration rest;
    const int64_t count = absl::IDivDuration(every, unit.size, &rest);
    if (rest != absl::ZeroDuration()) continue;
    if (count == 1) return absl::StrCat("Every ", unit.name);
    return absl::StrCat("Every ", count, " ", unit.name, "s");
  }
  return absl::StrCat("Every ", absl::FormatDuration(every));
}

std::string DescribeExclusions(const storage::v1::TimingRecord& timing) {
  constexpr int kNamedMax = 3;
  if (timing.exclusions_size() > kNamedMax)
    return absl::StrCat(", except what ", timing.exclusions_size(), " exclusions match");
  std::vector<std::string> quoted;
  for (const std::string& text : timing.exclusions())
    quoted.push_back(absl::StrCat("\"", text, "\""));
  return quoted.empty() ? std::string() : absl::StrCat(", except ", absl::StrJoin(quoted, " and "));
}

std::string DescribeCalendar(const storage::v1::CalendarUseRecord& use) {
  if (use.calendar_id().empty()) return {};
  switch (use.on_excluded()) {
    case storage::v1::EXCLUDED_KIND_NEXT:
      return absl::StrCat(", from days of calendar ", use.calendar_id(), " to the next other day");
    case storage::v1::EXCLUDED_KIND_PREVIOUS:
      return absl::StrCat(", from days of calendar ", use.calendar_id(), " to the last day before");
    default:
      return absl::StrCat(", except on days of calendar ", use.calendar_id());
  }
}

std::string DescribeTiming(const Definition& definition) {
  const cron::TimetableSpec& spec = definition.timetable.spec();
  std::string text;
  if (spec.cron.has_value()) {
    text = cron::Describe(*spec.cron);
  } else if (definition.record.timing().has_interval()) {
    text = DescribeInterval(spec.every);
  } else {
    text =
        absl::StrCat("At ", spec.times.size(), " given instant", spec.times.size() == 1 ? "" : "s");
  }
  absl::StrAppend(&text, DescribeExclusions(definition.record.timing()),
                  DescribeCalendar(definition.record.timing().calendar()));
  if (spec.start != absl::InfinitePast())
    absl::StrAppend(&text, ", from ", LocalTime(spec.start, spec.zone), " on");
  if (spec.end != absl::InfiniteFuture())
    absl::StrAppend(&text, ", before ", LocalTime(spec.end, spec.zone));
  return text;
}

std::string PlacePart(uint8_t part) {
  return part == cron::kAnyPlace ? std::string("*") : absl::StrCat(static_cast<int>(part));
}

struct Wanted {
  Definition definition;
  absl::Time from;  // the first occurrence is after it
  size_t count = 0;
};

absl::StatusOr<Wanted> Read(const v1::PreviewScheduleRequest& request, const Calendars& calendars,
                            absl::Time now) {
  FieldViolations violations;
  Wanted wanted;
  std::string tenant;
  if (!request.parent().empty() || !request.calendar().empty()) {
    ASSIGN_OR_RETURN(tenant, ParseTenantName(request.parent(), "parent"));
  }
  ReadTiming(request, tenant, wanted.definition, violations);
  wanted.from = now;
  if (request.has_from_time()) {
    if (const auto micros = TimestampMicrosDown(request.from_time()); micros.has_value()) {
      wanted.from = FromMicros(*micros);
    } else {
      violations.Add("from_time", "is not a valid time");
    }
  }
  const int32_t count = request.count() == 0 ? kPreviewCountDefault : request.count();
  if (count < 1 || count > kPreviewCountMax)
    violations.Add("count", absl::StrCat("must be from 1 to ", kPreviewCountMax));
  wanted.count = static_cast<size_t>(std::clamp(count, 1, kPreviewCountMax));
  if (!violations.empty()) return violations.ToStatus();
  FillAnchor(wanted.definition, now);
  const TimingFields fields = PreviewFields();
  if (wanted.definition.record.timing().has_calendar()) {
    const std::string& id = wanted.definition.record.timing().calendar().calendar_id();
    if (!calendars.contains(id))
      return CalendarMissing(CalendarName{tenant, id}.ToString(), fields.Of("calendar"));
    RETURN_IF_ERROR(
        SetCalendarDays(calendars, kCalendarChildrenBytesMax, wanted.definition, fields));
  }
  RETURN_IF_ERROR(CheckFires(wanted.definition, fields));
  absl::Status fires = CheckFiresAfter(wanted.definition, std::min(now, wanted.from), fields);
  if (!fires.ok()) return fires;
  return wanted;
}

}  // namespace

std::vector<v1::PreviewScheduleResponse::Child> ChildrenOf(const cron::Timetable& timetable,
                                                           absl::Time now) {
  std::vector<v1::PreviewScheduleResponse::Child> children;
  if (!timetable.calendar()) {
    // An interval stands under its next instant, a list under each that is to come.
    const size_t max = timetable.spec().times.empty() ? 1 : timetable.spec().times.size();
    for (size_t i = UpcomingOf(timetable, now, max, kPreviewCandidatesMax).occurrences.size();
         i > 0; --i)
      children.emplace_back().set_class_("INSTANT");
    return children;
  }
  for (const cron::Place& place : timetable.ChildPlaces()) {
    if (children.size() == static_cast<size_t>(kPreviewChildrenMax)) break;
    v1::PreviewScheduleResponse::Child& child = children.emplace_back();
    child.set_launch_expression(cron::DescribeLaunchExpression(place));
    child.set_class_(std::string(cron::LaunchClassName(place.expression.launch_class)));
    child.set_hour(PlacePart(place.hour));
    child.set_minute(PlacePart(place.minute));
  }
  return children;
}

absl::StatusOr<v1::PreviewScheduleResponse> Preview(const v1::PreviewScheduleRequest& request,
                                                    const Calendars& calendars, absl::Time now) {
  ASSIGN_OR_RETURN(Wanted wanted, Read(request, calendars, now));
  const auto& [definition, from, count] = wanted;
  const cron::Timetable& timetable = definition.timetable;
  v1::PreviewScheduleResponse response;
  response.set_description(DescribeTiming(definition));
  const Upcoming upcoming =
      UpcomingOf(timetable, from + absl::Nanoseconds(1), count, kPreviewCandidatesMax);
  for (const cron::Occurrence& o : upcoming.occurrences) {
    v1::PreviewScheduleResponse::Occurrence* shown = response.add_occurrences();
    SetTimestamp(ToMicros(o.instant), *shown->mutable_time());
    shown->set_local_time(LocalTime(o.instant, timetable.spec().zone));
    shown->set_note(std::string(cron::NoteName(o.note)));
    shown->set_occurrence(timetable.IdOf(o));
  }
  for (v1::PreviewScheduleResponse::Child& child : ChildrenOf(timetable, now))
    *response.add_children() = std::move(child);
  if (!upcoming.complete) {
    response.add_warnings(absl::StrCat("not all occurrences are shown: more than ",
                                       kPreviewCandidatesMax, " were looked at"));
  }
  for (std::string& warning : WarningsOf(definition, from))
    response.add_warnings(std::move(warning));
  response.set_tz_version(cron::TzdataVersion());
  return response;
}

}  // namespace escapement::master
