#include "services/master/calendars/calendar_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/civil_match.h"
#include "common/cron/day_set.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/calendars/calendar_effects.h"
#include "services/master/calendars/ics_days.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"
#include "services/master/schedules/changes/calendar_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::CalendarRecord;

int64_t DayOf(absl::Time now) {
  return absl::ToCivilDay(now, absl::UTCTimeZone()) - absl::CivilDay(1970, 1, 1);
}

// A change of a calendar: what it has read, and what it is to write.
struct CalendarPlan {
  CalendarName name;
  Calendars calendars = {};                           // all of the tenant, before the change
  std::optional<CalendarRecord> next = std::nullopt;  // without version and times; unset: deleted
  CalendarDays changed = {};                          // calendars that get other days
  v1::UpdateCalendarResponse effects = {};            // the effects of an update

  const CalendarRecord* current() const {
    const auto found = calendars.find(name.calendar);
    return found == calendars.end() ? nullptr : &found->second.record;
  }
  std::string Resource() const { return name.ToString(); }
};
using PlanPtr = std::shared_ptr<CalendarPlan>;

absl::Status CheckPresent(const CalendarPlan& plan, const std::string& etag) {
  if (plan.current() == nullptr) return NotFound(plan.Resource());
  return CheckEtag(etag, CalendarEtag(*plan.current()), plan.Resource());
}

// Checks the calendars that `next` contains and, in those that contain it, that their days are not
// too many. Notes whose days change.
absl::Status CheckDays(CalendarPlan& plan) {
  Calendars after = plan.calendars;
  after[plan.name.calendar].record = *plan.next;
  for (int i = 0; i < plan.next->others_size(); ++i) {
    const std::string& other = plan.next->others(i);
    const std::string field = absl::StrCat("calendar.calendars[", i, "]");
    if (!after.contains(other))
      return CalendarMissing(CalendarName{plan.name.tenant, other}.ToString(), field);
  }
  for (const std::string& id : ContainersOf(after, plan.name.calendar)) {
    auto days = DaysOf(after, id);
    if (!days.ok()) {
      return InvalidField("calendar.calendars",
                          absl::StrCat(CalendarName{plan.name.tenant, id}.ToString(), " ",
                                       days.status().message()));
    }
    const auto before = DaysOf(plan.calendars, id);
    if (!before.ok() || before->SerializeAsString() != days->SerializeAsString())
      plan.changed.emplace(id, *std::move(days));
  }
  return absl::OkStatus();
}

absl::Status PlanCreate(CalendarPlan& plan, const CalendarRecord& draft) {
  if (plan.current() != nullptr) return AlreadyExists(plan.Resource());
  if (plan.calendars.size() >= kCalendarsMax)
    return TooManyCalendars(absl::StrCat("tenants/", plan.name.tenant));
  plan.next = draft;
  return CheckDays(plan);
}

absl::Status PlanUpdate(CalendarPlan& plan, const v1::UpdateCalendarRequest& request) {
  RETURN_IF_ERROR(CheckPresent(plan, request.calendar().etag()));
  ASSIGN_OR_RETURN(
      const v1::Calendar wanted,
      ApplyUpdateMask(ShowCalendar(*plan.current()), request.calendar(), request.update_mask()));
  ASSIGN_OR_RETURN(plan.next, ReadCalendar(wanted, plan.name.tenant));
  return CheckDays(plan);
}

absl::Status PlanDelete(CalendarPlan& plan, const std::string& etag) {
  RETURN_IF_ERROR(CheckPresent(plan, etag));
  for (const std::string& container : ContainersOf(plan.calendars, plan.name.calendar)) {
    if (container != plan.name.calendar)
      return CalendarInUse(plan.Resource(), CalendarName{plan.name.tenant, container}.ToString());
  }
  return absl::OkStatus();
}

// The group with the conditions and mutations of every change. `mark`: the tenant's, as it was read
// before the calendars.
RecordDecision BeginDecision(MasterContext& context, const CalendarPlan& plan,
                             const std::optional<std::string>& mark) {
  RecordDecision decision;
  const std::string key = CalendarMarkKey(plan.name.tenant);
  decision.group.conditions.push_back(kv::Unchanged(ColumnFamily::kPolicies, key, mark));
  decision.refusals.push_back(absl::OkStatus());
  decision.group.mutations.push_back(
      kv::Put(ColumnFamily::kPolicies, key, std::string(context.NewUid().bytes())));
  if (plan.current() != nullptr) decision.version_before = plan.current()->version();
  return decision;
}

// Writes `next`, and the rows by which the schedules get its days. Returns it as it is stored.
CalendarRecord PutCalendar(MasterContext& context, const CalendarPlan& plan, absl::Time now,
                           kv::Group& group) {
  CalendarRecord next = *plan.next;
  const CalendarRecord* current = plan.current();
  next.set_tenant(plan.name.tenant);
  next.set_calendar_id(plan.name.calendar);
  next.set_version(current == nullptr ? 1 : current->version() + 1);
  next.set_create_time_micros(current == nullptr ? ToMicros(now) : current->create_time_micros());
  next.set_update_time_micros(ToMicros(now));
  group.mutations.push_back(kv::Put(ColumnFamily::kPolicies,
                                    CalendarKey(plan.name.tenant, plan.name.calendar),
                                    next.SerializeAsString()));
  if (current == nullptr) return next;
  for (const auto& [id, days] : plan.changed) {
    group.mutations.push_back(
        kv::Put(ColumnFamily::kPolicies, RetimingKey(plan.name.tenant, id),
                EncodeRetimingProgress({.change = context.NewUid(), .last = std::nullopt})));
  }
  return next;
}

// A change whose `plan` and `decide` see all calendars of the tenant. `plan` may read more.
template <typename Response>
RecordChange ChangeOfCalendar(
    MasterContext& context, const PlanPtr& plan, RequestMark mark, bool validate_only,
    absl::AnyInvocable<void(CalendarPlan& plan, absl::AnyInvocable<void(absl::Status)> done)>
        make_plan,
    absl::AnyInvocable<void(absl::Time now, RecordDecision& decision)> decide) {
  RecordChange change{.key = {ColumnFamily::kPolicies, CalendarMarkKey(plan->name.tenant)},
                      .resource = plan->Resource(),
                      .mark = std::move(mark)};
  change.validate_only = validate_only;
  auto make = std::make_shared<decltype(make_plan)>(std::move(make_plan));
  change.read_more = [&context, plan, make](const std::optional<std::string>& /*mark_bytes*/,
                                            absl::AnyInvocable<void(absl::Status)> done) {
    *plan = CalendarPlan{.name = plan->name};
    ReadCalendars(context, plan->name.tenant,
                  [plan, make, done = std::move(done)](absl::StatusOr<Calendars> read) mutable {
                    if (!read.ok()) return done(read.status());
                    plan->calendars = *std::move(read);
                    (*make)(*plan, std::move(done));
                  });
  };
  change.decide = [&context, plan, decide = std::move(decide)](
                      const std::optional<std::string>& mark_bytes,
                      absl::Time now) mutable -> absl::StatusOr<RecordDecision> {
    RecordDecision decision = BeginDecision(context, *plan, mark_bytes);
    decide(now, decision);
    return decision;
  };
  change.response = std::make_unique<Response>();
  return change;
}

// Whole months at once: a set decides about each by all its rules.
void AddNextDays(const cron::DaySet& days, int64_t today, v1::Calendar& calendar) {
  for (cron::CivilMonth month = cron::CivilMonth::Of(today);
       month.first_day() < today + kNextDaysRange; month.ToNext()) {
    const uint32_t bits = days.Of(month);
    for (int d = 1; d <= month.days() && calendar.next_days_size() < kNextDaysMax; ++d) {
      const int64_t day = month.first_day() + d - 1;
      if ((bits >> d & 1) != 0 && day >= today) calendar.add_next_days(DayText(day));
    }
  }
}

// Puts the days of its file among the dates of the calendar.
void ReadIcs(absl::Time now, v1::Calendar& calendar, FieldViolations& violations) {
  if (calendar.ics().empty()) return;
  const absl::StatusOr<std::set<int32_t>> days = IcsDays(calendar.ics(), DayOf(now));
  calendar.clear_ics();
  if (!days.ok()) return violations.Add("calendar.ics", days.status().message());
  for (const int32_t day : *days) calendar.add_dates(DayText(day));
}

// Makes "ics" in the mask "dates". Clears a file that the mask does not name.
void ReadIcsMask(v1::UpdateCalendarRequest& request, FieldViolations& violations) {
  google::protobuf::FieldMask& mask = *request.mutable_update_mask();
  if (mask.paths().empty() || ReplacesAll(mask)) return;
  if (!HasPath(mask, "ics")) return request.mutable_calendar()->clear_ics();
  if (request.calendar().ics().empty())
    violations.Add("calendar.ics", "is required, since update_mask names it");
  auto& paths = *mask.mutable_paths();
  paths.erase(std::remove(paths.begin(), paths.end(), "ics"), paths.end());
  if (!HasPath(mask, "dates")) mask.add_paths("dates");
}

}  // namespace

void CalendarService::CreateCalendar(v1::CreateCalendarRequest request, Done<v1::Calendar> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckNewId("calendar_id", request.calendar_id(), violations);
  if (!request.has_calendar()) violations.Add("calendar", "is required");
  v1::Calendar calendar = request.calendar();
  ReadIcs(context_.client.NowLow(), calendar, violations);
  absl::StatusOr<CalendarRecord> draft = ReadCalendar(calendar, *tenant);
  violations.AddStatus("", draft.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const auto plan = std::make_shared<CalendarPlan>();
  plan->name = {*tenant,
                request.calendar_id().empty() ? context_.NewUid().ToHex() : request.calendar_id()};
  RecordChange change = ChangeOfCalendar<v1::Calendar>(
      context_, plan, MarkOf(*tenant, "CreateCalendar", request, done), request.validate_only(),
      [draft = *std::move(draft)](CalendarPlan& made, auto planned) {
        planned(PlanCreate(made, draft));
      },
      [&context = context_, plan](absl::Time now, RecordDecision& decision) {
        decision.response = std::make_unique<v1::Calendar>(
            ShowCalendar(PutCalendar(context, *plan, now, decision.group)));
      });
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

void CalendarService::UpdateCalendar(v1::UpdateCalendarRequest request,
                                     Done<v1::UpdateCalendarResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<CalendarName> name =
      ParseCalendarName(request.calendar().name(), "calendar.name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  violations.AddStatus("", name.status());
  const bool validate_only = request.validate_only();
  RequestMark mark;
  if (name.ok()) mark = MarkOf(name->tenant, "UpdateCalendar", request, done);
  ReadIcsMask(request, violations);
  ReadIcs(context_.client.NowLow(), *request.mutable_calendar(), violations);
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const auto plan = std::make_shared<CalendarPlan>();
  plan->name = *name;
  auto make_plan = [&context = context_, plan, request = std::move(request)](
                       CalendarPlan& made, absl::AnyInvocable<void(absl::Status)> planned) {
    if (absl::Status checked = PlanUpdate(made, request); !checked.ok())
      return planned(std::move(checked));
    ReadCalendarEffects(context, made.name.tenant, made.changed,
                        [plan, planned = std::move(planned)](
                            absl::StatusOr<v1::UpdateCalendarResponse> effects) mutable {
                          if (effects.ok()) plan->effects = *std::move(effects);
                          planned(effects.status());
                        });
  };
  RecordChange change = ChangeOfCalendar<v1::UpdateCalendarResponse>(
      context_, plan, std::move(mark), validate_only, std::move(make_plan),
      [&context = context_, plan](absl::Time now, RecordDecision& decision) {
        *plan->effects.mutable_calendar() =
            ShowCalendar(PutCalendar(context, *plan, now, decision.group));
        decision.response = std::make_unique<v1::UpdateCalendarResponse>(plan->effects);
      });
  ChangeRecord(context_, std::move(change),
               [this, plan, validate_only, answer = AsAnswer(std::move(done))](
                   absl::StatusOr<std::unique_ptr<google::protobuf::Message>> response) mutable {
                 if (response.ok() && !validate_only) {
                   for (const auto& [id, days] : plan->changed)
                     retiming_.Begin(RetimingKey(plan->name.tenant, id));
                 }
                 answer(std::move(response));
               });
}

void CalendarService::DeleteCalendar(v1::DeleteCalendarRequest request,
                                     Done<google::protobuf::Empty> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<CalendarName> name = ParseCalendarName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  violations.AddStatus("", name.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const auto plan = std::make_shared<CalendarPlan>();
  plan->name = *name;
  RecordChange change = ChangeOfCalendar<google::protobuf::Empty>(
      context_, plan, MarkOf(name->tenant, "DeleteCalendar", request, done),
      request.validate_only(),
      [etag = request.etag()](CalendarPlan& made, auto planned) {
        planned(PlanDelete(made, etag));
      },
      [plan](absl::Time, RecordDecision& decision) {
        const CalendarName& deleted = plan->name;
        const std::string users = CalendarUserPrefix(CalendarUid(deleted.tenant, deleted.calendar));
        decision.group.conditions.push_back({.cf = ColumnFamily::kPolicies,
                                             .key = users,
                                             .kind = kv::Condition::Kind::kRangeCount,
                                             .value = PrefixEnd(users),
                                             .number = 0});
        decision.refusals.push_back(CalendarInUse(deleted.ToString(), "a schedule"));
        for (std::string key : {CalendarKey(deleted.tenant, deleted.calendar),
                                RetimingKey(deleted.tenant, deleted.calendar)}) {
          decision.group.mutations.push_back(kv::Delete(ColumnFamily::kPolicies, std::move(key)));
        }
        decision.response = std::make_unique<google::protobuf::Empty>();
      });
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

void CalendarService::GetCalendar(v1::GetCalendarRequest request, Done<v1::Calendar> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<CalendarName> name = ParseCalendarName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  ReadCalendars(
      context_, name->tenant,
      [this, name = *name, done = std::move(done)](absl::StatusOr<Calendars> read) mutable {
        if (!read.ok()) return done(read.status());
        const auto found = read->find(name.calendar);
        if (found == read->end()) return done(NotFound(name.ToString()));
        v1::Calendar calendar = ShowCalendar(found->second.record);
        const auto days = DaysOf(*read, name.calendar);
        if (!days.ok()) return done(BrokenRecord(name.ToString()));
        const auto set = DaySetOf(*days);
        if (!set.ok()) return done(BrokenRecord(name.ToString()));
        AddNextDays(**set, DayOf(context_.client.NowLow()), calendar);
        CountCalendarUsers(context_, name.tenant, ContainersOf(*read, name.calendar),
                           [calendar = std::move(calendar),
                            done = std::move(done)](absl::StatusOr<CalendarUsers> users) mutable {
                             if (!users.ok()) return done(users.status());
                             calendar.set_schedule_count(users->schedules);
                             calendar.set_outdated_schedule_count(users->outdated);
                             done(std::move(calendar));
                           });
      });
}

void CalendarService::ListCalendars(v1::ListCalendarsRequest request,
                                    Done<v1::ListCalendarsResponse> done) {
  ListRecords<CalendarRecord>(context_, "ListCalendars", request, ColumnFamily::kPolicies,
                              CalendarPrefix, &v1::ListCalendarsResponse::mutable_calendars,
                              ShowCalendar, std::move(done));
}

}  // namespace escapement::master
