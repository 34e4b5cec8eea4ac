// Calendars through the master's API, and the schedules that name them.

#include "services/master/calendars/calendar_service.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace calendar_service_test {

using kv::ColumnFamily;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string CalendarNamed(const std::string& id) {
  return absl::StrCat("tenants/default/calendars/", id);
}

v1::CreateCalendarRequest Creation(const std::string& id,
                                   const std::vector<std::string>& dates = {},
                                   const std::vector<std::string>& others = {}) {
  v1::CreateCalendarRequest request;
  request.set_parent("tenants/default");
  request.set_calendar_id(id);
  request.mutable_calendar();
  for (const std::string& date : dates) request.mutable_calendar()->add_dates(date);
  for (const std::string& other : others) request.mutable_calendar()->add_calendars(other);
  return request;
}

std::set<std::string> FieldsOf(const absl::Status& status) {
  std::set<std::string> fields;
  for (const auto& [field, description] : FieldViolationsOf(status)) fields.insert(field);
  return fields;
}

class CalendarServiceTest : public testing::Test {
 protected:
  // At noon: the schedules have fired today.
  CalendarServiceTest() { fixture_.runtime.AdvanceBy(absl::Hours(12)); }

  v1::Calendar Make(const v1::CreateCalendarRequest& request) {
    const auto made = fixture_.Call(&CalendarService::CreateCalendar, request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(v1::Calendar());
  }
  absl::Status Refused(v1::CreateCalendarRequest request) {
    return fixture_.Call(&CalendarService::CreateCalendar, std::move(request)).status();
  }
  absl::StatusOr<v1::Calendar> Get(const std::string& id) {
    v1::GetCalendarRequest request;
    request.set_name(CalendarNamed(id));
    return fixture_.Call(&CalendarService::GetCalendar, request);
  }
  absl::StatusOr<v1::UpdateCalendarResponse> Update(
      const std::string& id, const std::function<void(v1::UpdateCalendarRequest&)>& change) {
    v1::UpdateCalendarRequest request;
    request.mutable_calendar()->set_name(CalendarNamed(id));
    change(request);
    return fixture_.Call(&CalendarService::UpdateCalendar, request);
  }
  absl::StatusOr<v1::UpdateCalendarResponse> SetDates(const std::string& id,
                                                      const std::vector<std::string>& dates) {
    return Update(id, [&](v1::UpdateCalendarRequest& request) {
      for (const std::string& date : dates) request.mutable_calendar()->add_dates(date);
      request.mutable_update_mask()->add_paths("dates");
    });
  }
  absl::StatusOr<v1::UpdateCalendarResponse> SetOthers(const std::string& id,
                                                       const std::vector<std::string>& others) {
    return Update(id, [&](v1::UpdateCalendarRequest& request) {
      for (const std::string& other : others) request.mutable_calendar()->add_calendars(other);
      request.mutable_update_mask()->add_paths("calendars");
    });
  }
  absl::Status Delete(const std::string& id, const std::string& etag = "") {
    v1::DeleteCalendarRequest request;
    request.set_name(CalendarNamed(id));
    request.set_etag(etag);
    return fixture_.Call(&CalendarService::DeleteCalendar, request).status();
  }
  // Daily at 09:00 UTC.
  absl::StatusOr<v1::Schedule> MakeSchedule(
      const std::string& id, const std::string& calendar,
      v1::OnExcluded::Rule rule = v1::OnExcluded::RULE_UNSPECIFIED,
      const std::function<void(v1::Schedule&)>& change = nullptr) {
    v1::CreateScheduleRequest request = ValidSchedule(id, "0 9 * * *");
    request.mutable_schedule()->set_calendar(calendar);
    request.mutable_schedule()->set_on_excluded(rule);
    if (change) change(*request.mutable_schedule());
    return fixture_.Call(&ScheduleApi::CreateSchedule, request);
  }
  v1::Schedule GetSchedule(const std::string& id) {
    v1::GetScheduleRequest request;
    request.set_name(absl::StrCat("tenants/default/schedules/", id));
    const auto got = fixture_.Call(&ScheduleApi::GetSchedule, request);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.value_or(v1::Schedule());
  }
  // The civil day `days` after today, in UTC.
  std::string Day(int days) const {
    return absl::FormatTime("%Y-%m-%d", fixture_.Now() + absl::Hours(24 * days),
                            absl::UTCTimeZone());
  }
  static std::string TextOf(const google::protobuf::Timestamp& time) {
    return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixSeconds(time.seconds()),
                            absl::UTCTimeZone());
  }
  // "2026-11-30 09:00 > 2026-12-01 09:00".
  static std::vector<std::string> MovesOf(const v1::UpdateCalendarResponse& response) {
    std::vector<std::string> moves;
    for (const auto& move : response.moves()) {
      moves.push_back(absl::StrCat(move.has_from_time() ? TextOf(move.from_time()) : "-", " > ",
                                   move.has_to_time() ? TextOf(move.to_time()) : "-"));
    }
    return moves;
  }
  size_t Retimings() const {
    size_t rows = 0;
    for (const auto& [key, value] : fixture_.Rows(ColumnFamily::kPolicies))
      rows += DecodeRetimingKey(key).has_value();
    return rows;
  }
  bool RunUntilRetimed() {
    return fixture_.runtime.RunUntil([&] { return Retimings() == 0; }, absl::Minutes(1));
  }

  std::optional<RetimingProgress> ProgressOf(const std::string& id) const {
    const auto& rows = fixture_.Rows(ColumnFamily::kPolicies);
    const auto row = rows.find(RetimingKey("default", id));
    return row != rows.end() ? DecodeRetimingProgress(row->second) : std::nullopt;
  }
  // Runs until all schedules have been visited and the loop waits to try the failed ones again.
  bool RunUntilRetryIsPlanned(const std::string& id) {
    return fixture_.runtime.RunUntil(
        [&] {
          const auto progress = ProgressOf(id);
          return progress.has_value() && progress->retry_time.has_value();
        },
        absl::Minutes(1));
  }
  void MakeSchedules(const std::string& calendar, size_t count) {
    for (size_t i = 0; i < count; ++i)
      ASSERT_TRUE(MakeSchedule(absl::StrCat(calendar, "-", i), calendar).ok());
  }
  // The schedules that name a calendar, in the order in which a change visits them.
  std::vector<Uid> Users() const {
    std::vector<Uid> users;
    for (const auto& [key, value] : fixture_.Rows(ColumnFamily::kPolicies)) {
      if (const auto user = DecodeCalendarUserKey(key); user.has_value()) users.push_back(*user);
    }
    return users;
  }
  uint64_t VersionOf(const Uid& schedule) {
    storage::v1::StateRecord state;
    EXPECT_TRUE(state.ParseFromString(
        fixture_.Get(ColumnFamily::kStates, StateKey(schedule)).value_or("")));
    return state.version();
  }
  // Makes each change of the schedule fail. Returns the bytes that mend it.
  std::string Break(const Uid& schedule) {
    const std::string key = DefinitionKey(schedule, 1);
    std::string whole = fixture_.Get(ColumnFamily::kDefinitions, key).value_or("");
    fixture_.Put(ColumnFamily::kDefinitions, key, "broken");
    return whole;
  }
  void Mend(const Uid& schedule, const std::string& whole) {
    fixture_.Put(ColumnFamily::kDefinitions, DefinitionKey(schedule, 1), whole);
  }

  MasterWorld fixture_;
};

TEST_F(CalendarServiceTest, CalendarIsMadeReadListedAndDeleted) {
  v1::CreateCalendarRequest request = Creation("de", {"2027-12-25", "2027-01-01", "2027-12-25"});
  request.mutable_calendar()->set_display_name("Germany");
  request.mutable_calendar()->add_rules("25 12 *");
  request.mutable_calendar()->add_except_dates("2028-12-25");
  const v1::Calendar made = Make(request);
  EXPECT_EQ(made.name(), CalendarNamed("de"));
  EXPECT_EQ(made.display_name(), "Germany");
  EXPECT_THAT(made.dates(), ElementsAre("2027-01-01", "2027-12-25"));
  EXPECT_THAT(made.rules(), ElementsAre("25 12 *"));
  EXPECT_THAT(made.except_dates(), ElementsAre("2028-12-25"));
  EXPECT_EQ(made.version(), 1);
  EXPECT_TRUE(made.has_create_time());
  const auto got = Get("de");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->etag(), made.etag());
  EXPECT_EQ(got->schedule_count(), 0);
  ASSERT_GE(got->next_days_size(), 9);
  EXPECT_FALSE(testing::Value(got->next_days(), testing::Contains("2028-12-25")));
  Make(Creation("at", {}, {"de"}));
  v1::ListCalendarsRequest list;
  list.set_parent("tenants/default");
  list.set_page_size(1);
  auto page = fixture_.Call(&CalendarService::ListCalendars, list);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->calendars_size(), 1);
  EXPECT_EQ(page->calendars(0).name(), CalendarNamed("at"));
  EXPECT_THAT(page->calendars(0).calendars(), ElementsAre(CalendarNamed("de")));
  list.set_page_token(page->next_page_token());
  page = fixture_.Call(&CalendarService::ListCalendars, list);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->calendars_size(), 1);
  EXPECT_EQ(page->calendars(0).name(), CalendarNamed("de"));
  EXPECT_EQ(page->next_page_token(), "");
  EXPECT_EQ(ErrorReason(Delete("de")), "CALENDAR_IN_USE");
  EXPECT_TRUE(Delete("at").ok());
  EXPECT_EQ(Delete("de", "\"other\"").code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Delete("de", made.etag()).ok());
  EXPECT_EQ(Get("de").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Delete("de").code(), absl::StatusCode::kNotFound);
}

TEST_F(CalendarServiceTest, WrongFieldsAreNamedTogether) {
  v1::CreateCalendarRequest request = Creation("De", {"2027-02-29", "2027-02-28"}, {"a/b"});
  request.mutable_calendar()->add_rules("* *");
  request.mutable_calendar()->add_except_dates("2200-01-01");
  request.mutable_calendar()->set_display_name(std::string(201, 'x'));
  request.mutable_calendar()->set_ics("no calendar");
  EXPECT_THAT(
      FieldsOf(Refused(request)),
      ElementsAre("calendar.calendars[0]", "calendar.dates[0]", "calendar.display_name",
                  "calendar.except_dates[0]", "calendar.ics", "calendar.rules[0]", "calendar_id"));
  EXPECT_THAT(fixture_.Rows(ColumnFamily::kPolicies), IsEmpty());
}

TEST_F(CalendarServiceTest, NameIsTakenOnceAndMissingCalendarsAreRefused) {
  Make(Creation("a"));
  EXPECT_EQ(Refused(Creation("a")).code(), absl::StatusCode::kAlreadyExists);
  const absl::Status missing = Refused(Creation("b", {}, {"a", "none"}));
  EXPECT_EQ(ErrorReason(missing), "CALENDAR_NOT_FOUND");
  EXPECT_EQ(ErrorMetadataValue(missing, "field"), "calendar.calendars[1]");
  EXPECT_EQ(Make(Creation("")).name().size(), CalendarNamed("").size() + 32);
}

TEST_F(CalendarServiceTest, RequestIdRepeatsTheAnswerAndValidateOnlyWritesNothing) {
  v1::CreateCalendarRequest request = Creation("a", {"2027-01-01"});
  request.set_validate_only(true);
  EXPECT_EQ(Make(request).version(), 1);
  EXPECT_THAT(fixture_.Rows(ColumnFamily::kPolicies), IsEmpty());
  request.set_validate_only(false);
  request.set_request_id("once");
  const v1::Calendar made = Make(request);
  EXPECT_EQ(Make(request).etag(), made.etag());
  v1::UpdateCalendarRequest update;
  update.mutable_calendar()->set_name(CalendarNamed("a"));
  update.mutable_calendar()->set_display_name("x");
  update.set_request_id("twice");
  for (int i = 0; i < 2; ++i) {
    const auto updated = fixture_.Call(&CalendarService::UpdateCalendar, update);
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_EQ(updated->calendar().version(), 2);
    EXPECT_THAT(updated->calendar().dates(), ElementsAre("2027-01-01"));
  }
}

TEST_F(CalendarServiceTest, UpdateTakesMaskEtagAndIcs) {
  const v1::Calendar made = Make(Creation("a", {"2027-01-01"}));
  auto updated = Update("a", [&](v1::UpdateCalendarRequest& request) {
    request.mutable_calendar()->set_etag(made.etag());
    request.mutable_calendar()->set_ics(
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20270501\r\nEND:VEVENT\r\n"
        "END:VCALENDAR\r\n");
    request.mutable_calendar()->add_dates("2027-10-03");
  });
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(updated->calendar().dates(), ElementsAre("2027-05-01", "2027-10-03"));
  EXPECT_EQ(updated->calendar().version(), 2);
  EXPECT_EQ(updated->schedule_count(), 0);
  updated = Update("a", [&](v1::UpdateCalendarRequest& request) {
    request.mutable_calendar()->set_etag(made.etag());
    request.mutable_calendar()->set_display_name("late");
  });
  EXPECT_EQ(ErrorReason(updated.status()), "ETAG_MISMATCH");
  updated = Update("a", [](v1::UpdateCalendarRequest& request) {
    request.mutable_update_mask()->add_paths("holidays");
  });
  EXPECT_THAT(FieldsOf(updated.status()), ElementsAre("update_mask"));
  const auto with_mask = [&](const std::string& path) {
    return Update("a", [&](v1::UpdateCalendarRequest& request) {
      request.mutable_calendar()->set_ics(
          "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20270601\nEND:VEVENT\nEND:VCALENDAR");
      request.mutable_calendar()->set_display_name("B");
      request.mutable_update_mask()->add_paths(path);
    });
  };
  updated = with_mask("display_name");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(updated->calendar().dates(), ElementsAre("2027-05-01", "2027-10-03"));
  updated = with_mask("ics");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(updated->calendar().dates(), ElementsAre("2027-06-01"));
  updated = Update("a", [](v1::UpdateCalendarRequest& request) {
    request.mutable_update_mask()->add_paths("ics");
  });
  EXPECT_THAT(FieldsOf(updated.status()), ElementsAre("calendar.ics"));
  updated = SetDates("a", {});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(updated->calendar().dates(), IsEmpty());
  EXPECT_EQ(SetDates("none", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CalendarServiceTest, CirclesAndDeepCalendarsAreRefused) {
  Make(Creation("a"));
  Make(Creation("b", {}, {"a"}));
  Make(Creation("c", {}, {"b"}));
  Make(Creation("d", {}, {"c"}));
  const absl::Status deep = Refused(Creation("e", {}, {"d"}));
  EXPECT_THAT(FieldsOf(deep), ElementsAre("calendar.calendars"));
  EXPECT_THAT(std::string(deep.message()), HasSubstr("4 deep"));
  // It would make d too deep.
  Make(Creation("z"));
  const absl::Status above = SetOthers("a", {"z"}).status();
  EXPECT_THAT(std::string(above.message()), HasSubstr("calendars/d contains"));
  EXPECT_THAT(FieldsOf(SetOthers("a", {"a"}).status()), ElementsAre("calendar.calendars"));
  EXPECT_THAT(FieldsOf(SetOthers("a", {"c"}).status()), ElementsAre("calendar.calendars"));
  EXPECT_TRUE(SetOthers("c", {"a"}).ok());
  EXPECT_EQ(ErrorReason(Delete("a")), "CALENDAR_IN_USE");
}

// Delays or repeats the commits of the master.
class RacingStore final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::Commit;
  using kv::ForwardingKvStore::ForwardingKvStore;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    if (before_commit != nullptr) std::exchange(before_commit, nullptr)();
    inner_.Commit(std::move(request), std::move(done));
  }
  std::function<void()> before_commit;
};

TEST_F(CalendarServiceTest, ConcurrentChangesMakeNoCircle) {
  RacingStore store(*fixture_.store);
  MasterService master({}, store, fixture_.runtime);
  master.Start();
  fixture_.runtime.RunUntil([&] { return master.Ready(); }, absl::Minutes(1));
  Make(Creation("a"));
  Make(Creation("b"));
  std::optional<absl::Status> raced;
  store.before_commit = [&] { EXPECT_TRUE(SetOthers("b", {"a"}).ok()); };
  v1::UpdateCalendarRequest request;
  request.mutable_calendar()->set_name(CalendarNamed("a"));
  request.mutable_calendar()->add_calendars("b");
  master.calendars().UpdateCalendar(
      request, [&](absl::StatusOr<v1::UpdateCalendarResponse> answer) { raced = answer.status(); });
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return raced.has_value(); }, absl::Minutes(1)));
  EXPECT_EQ(raced->code(), absl::StatusCode::kInvalidArgument) << *raced;
}

TEST_F(CalendarServiceTest, TenantHasABoundedNumber) {
  for (size_t i = 0; i < kCalendarsMax; ++i) Make(Creation(absl::StrCat("c", i)));
  EXPECT_EQ(ErrorReason(Refused(Creation("more"))), "TOO_MANY_CALENDARS");
  ASSERT_TRUE(Delete("c7").ok());
  Make(Creation("more"));
}

TEST_F(CalendarServiceTest, ScheduleLeavesOutOrMovesItsDays) {
  Make(Creation("off", {Day(1), Day(2)}));
  const auto skipping = MakeSchedule("skipping", "off");
  ASSERT_TRUE(skipping.ok()) << skipping.status();
  EXPECT_EQ(skipping->calendar(), CalendarNamed("off"));
  EXPECT_EQ(skipping->on_excluded(), v1::OnExcluded::SKIP);
  const auto on_day_1 = [&](v1::Schedule& schedule) {
    const absl::CivilDay day =
        absl::ToCivilDay(fixture_.Now() + absl::Hours(24), absl::UTCTimeZone());
    schedule.set_cron(absl::StrCat("0 9 ", day.day(), " ", day.month(), " *"));
  };
  const auto next = MakeSchedule("next", CalendarNamed("off"), v1::OnExcluded::NEXT, on_day_1);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(TextOf(next->next_time()), Day(3) + " 09:00");
  EXPECT_EQ(Get("off")->schedule_count(), 2);
  EXPECT_EQ(ErrorReason(Delete("off")), "CALENDAR_IN_USE");
  // Without the calendar the on_excluded goes too.
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(next->name());
  update.mutable_update_mask()->add_paths("calendar");
  const auto without = fixture_.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->calendar(), "");
  EXPECT_EQ(without->on_excluded(), v1::OnExcluded::RULE_UNSPECIFIED);
  EXPECT_EQ(TextOf(without->next_time()), Day(1) + " 09:00");
  v1::DeleteScheduleRequest deletion;
  deletion.set_name(skipping->name());
  ASSERT_TRUE(fixture_.Call(&ScheduleApi::DeleteSchedule, deletion).ok());
  EXPECT_TRUE(Delete("off").ok());
}

TEST_F(CalendarServiceTest, WrongCalendarsOfSchedulesAreRefused) {
  EXPECT_EQ(ErrorReason(MakeSchedule("s", "none").status()), "CALENDAR_NOT_FOUND");
  EXPECT_THAT(FieldsOf(MakeSchedule("s", "tenants/other/calendars/a").status()),
              ElementsAre("schedule.calendar"));
  EXPECT_THAT(FieldsOf(MakeSchedule("s", "", v1::OnExcluded::NEXT).status()),
              ElementsAre("schedule.on_excluded"));
  v1::CreateCalendarRequest always = Creation("always");
  always.mutable_calendar()->add_rules("* * *");
  Make(always);
  const absl::Status never = MakeSchedule("s", "always").status();
  EXPECT_EQ(ErrorReason(never), "IMPOSSIBLE_EXPRESSION");
  EXPECT_THAT(FieldsOf(never), ElementsAre("schedule.calendar"));
  const auto interval = [](v1::Schedule& schedule) {
    schedule.mutable_interval()->mutable_every()->set_seconds(3600);
  };
  Make(Creation("off", {Day(1)}));
  EXPECT_THAT(FieldsOf(MakeSchedule("s", "off", v1::OnExcluded::PREVIOUS, interval).status()),
              ElementsAre("schedule.on_excluded"));
  ASSERT_TRUE(MakeSchedule("i", "off", v1::OnExcluded::SKIP, interval).ok());
  // A patch from cron to an interval does not take the rule away.
  ASSERT_TRUE(MakeSchedule("s", "off", v1::OnExcluded::NEXT).ok());
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/s");
  interval(*update.mutable_schedule());
  EXPECT_THAT(FieldsOf(fixture_.Call(&ScheduleApi::UpdateSchedule, update).status()),
              ElementsAre("schedule.on_excluded"));
  update.mutable_schedule()->set_on_excluded(v1::OnExcluded::SKIP);
  EXPECT_TRUE(fixture_.Call(&ScheduleApi::UpdateSchedule, update).ok());
}

TEST_F(CalendarServiceTest, DaysOfAllChildrenAreBounded) {
  v1::CreateCalendarRequest large = Creation("large");
  for (int i = 0; i < kCalendarRulesMax; ++i) {
    large.mutable_calendar()->add_rules(
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31 "
        "JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV SUN,MON,TUE,WED,THU,FRI");
  }
  Make(large);
  // 924 children.
  const auto on_many_days = [](v1::Schedule& schedule) {
    schedule.set_cron("0 9,10,11 1-28 2-12 *");
  };
  EXPECT_THAT(FieldsOf(MakeSchedule("s", "large", v1::OnExcluded::SKIP, on_many_days).status()),
              ElementsAre("schedule.calendar"));
  EXPECT_TRUE(MakeSchedule("s", "large").ok());
}

TEST_F(CalendarServiceTest, UpdateRetimesSchedulesAndSaysWhatMoves) {
  Make(Creation("off", {Day(1)}));
  Make(Creation("all", {Day(5)}, {"off"}));
  ASSERT_TRUE(MakeSchedule("direct", "off").ok());
  ASSERT_TRUE(MakeSchedule("through", "all", v1::OnExcluded::SKIP).ok());
  ASSERT_TRUE(MakeSchedule("other", "", v1::OnExcluded::RULE_UNSPECIFIED).ok());
  ASSERT_EQ(TextOf(GetSchedule("direct").next_time()), Day(2) + " 09:00");
  const std::string before = fixture_.Dump();
  const auto change = [&](v1::UpdateCalendarRequest& request) {
    request.mutable_calendar()->add_dates(Day(2));
    request.mutable_update_mask()->add_paths("dates");
  };
  const auto checked = Update("off", [&](v1::UpdateCalendarRequest& request) {
    change(request);
    request.set_validate_only(true);
  });
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(fixture_.Dump(), before);
  const auto updated = Update("off", change);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->schedule_count(), 2);
  const std::vector<std::string> moves = {"- > " + Day(1) + " 09:00", Day(2) + " 09:00 > -",
                                          "- > " + Day(1) + " 09:00", Day(2) + " 09:00 > -"};
  EXPECT_EQ(MovesOf(*updated), moves);
  EXPECT_EQ(updated->moves(0).schedule(), "tenants/default/schedules/direct");
  EXPECT_EQ(updated->moves(2).schedule(), "tenants/default/schedules/through");
  EXPECT_FALSE(updated->more());
  EXPECT_EQ(MovesOf(*checked), moves);
  EXPECT_EQ(checked->schedule_count(), 2);
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(TextOf(GetSchedule("direct").next_time()), Day(1) + " 09:00");
  EXPECT_EQ(GetSchedule("direct").version(), 2);
  EXPECT_EQ(GetSchedule("through").version(), 2);
  EXPECT_EQ(GetSchedule("other").version(), 1);
  EXPECT_EQ(Get("off")->outdated_schedule_count(), 0);
  EXPECT_EQ(Get("off")->schedule_count(), 2);
  EXPECT_EQ(Get("all")->schedule_count(), 1);
  // A change that leaves the days as they are changes no schedule.
  const auto renamed = Update("off", [](v1::UpdateCalendarRequest& request) {
    request.mutable_calendar()->set_display_name("Days off");
  });
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  EXPECT_EQ(renamed->schedule_count(), 0);
  EXPECT_EQ(Retimings(), 0u);
  int audited = 0;
  for (const auto& [key, value] : fixture_.Rows(ColumnFamily::kAudit)) {
    storage::v1::AuditRecord record;
    ASSERT_TRUE(record.ParseFromString(value));
    audited += record.method() == "UpdateSchedule" && record.principal() == "platform";
  }
  EXPECT_EQ(audited, 2);
}

TEST_F(CalendarServiceTest, MovedOccurrencesArePaired) {
  Make(Creation("off", {Day(10)}));
  const auto weekly = [&](v1::Schedule& schedule) {
    schedule.set_cron(absl::StrCat(
        "0 9 * * ", absl::FormatTime("%w", fixture_.Now() + absl::Hours(48), absl::UTCTimeZone())));
  };
  ASSERT_TRUE(MakeSchedule("next", "off", v1::OnExcluded::NEXT, weekly).ok());
  ASSERT_TRUE(MakeSchedule("previous", "off", v1::OnExcluded::PREVIOUS, weekly).ok());
  const auto updated = SetDates("off", {Day(2), Day(10), Day(3)});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(MovesOf(*updated), ElementsAre(Day(2) + " 09:00 > " + Day(4) + " 09:00",
                                             Day(2) + " 09:00 > " + Day(1) + " 09:00"));
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(TextOf(GetSchedule("next").next_time()), Day(4) + " 09:00");
  EXPECT_EQ(TextOf(GetSchedule("previous").next_time()), Day(1) + " 09:00");
}

TEST_F(CalendarServiceTest, MovesAreBounded) {
  Make(Creation("off"));
  const auto each_minute = [](v1::Schedule& schedule) { schedule.set_cron("* * * * *"); };
  ASSERT_TRUE(MakeSchedule("s", "off", v1::OnExcluded::SKIP, each_minute).ok());
  const auto updated = SetDates("off", {Day(2)});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->moves_size(), static_cast<int>(kMovesOfScheduleMax));
  EXPECT_TRUE(updated->more());
}

TEST_F(CalendarServiceTest, PausedAndEndedSchedulesGetTheDaysToo) {
  Make(Creation("off"));
  ASSERT_TRUE(MakeSchedule("paused", "off").ok());
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/paused");
  ASSERT_TRUE(fixture_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  ASSERT_TRUE(MakeSchedule("ending", "off").ok());
  const auto never = Update("off", [](v1::UpdateCalendarRequest& request) {
    request.mutable_calendar()->add_rules("* * *");
  });
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_EQ(never->schedule_count(), 2);
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(GetSchedule("paused").state(), v1::Schedule::PAUSED);
  EXPECT_EQ(GetSchedule("paused").version(), 2);
  EXPECT_EQ(GetSchedule("ending").state(), v1::Schedule::FINISHED);
  const auto again = Update("off", [](v1::UpdateCalendarRequest& request) {
    request.mutable_update_mask()->add_paths("rules");
  });
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(GetSchedule("ending").state(), v1::Schedule::ENABLED);
  v1::ResumeScheduleRequest resume;
  resume.set_name("tenants/default/schedules/paused");
  const auto resumed = fixture_.Call(&ScheduleApi::ResumeSchedule, resume);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(resumed->has_next_time());
}

TEST_F(CalendarServiceTest, PausedScheduleKeepsItsMissedRunsIfNoneOfThemMoves) {
  Make(Creation("off"));
  for (const char* id : {"kept", "moved"}) {
    ASSERT_TRUE(MakeSchedule(id, "off").ok());
    v1::PauseScheduleRequest pause;
    pause.set_name(absl::StrCat("tenants/default/schedules/", id));
    ASSERT_TRUE(fixture_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  }
  const std::string tomorrow = Day(1);
  fixture_.runtime.AdvanceBy(absl::Hours(72));
  const auto resume = [&](const std::string& id) {
    v1::ResumeScheduleRequest request;
    request.set_name(absl::StrCat("tenants/default/schedules/", id));
    EXPECT_TRUE(fixture_.Call(&ScheduleApi::ResumeSchedule, request).ok());
  };
  ASSERT_TRUE(SetDates("off", {Day(30)}).ok());
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(GetSchedule("kept").version(), 2);
  EXPECT_THAT(fixture_.Rows(kv::ColumnFamily::kDone), IsEmpty());
  const size_t rows = fixture_.Events().size();
  resume("kept");
  EXPECT_GE(fixture_.Events().size(), rows + 3);  // the three missed ones fire
  EXPECT_THAT(fixture_.Rows(kv::ColumnFamily::kDone), IsEmpty());
  // One of the pause moves: all of it are skipped.
  ASSERT_TRUE(SetDates("off", {tomorrow, Day(30)}).ok());
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_FALSE(fixture_.Rows(kv::ColumnFamily::kDone).empty());
}

TEST_F(CalendarServiceTest, UpdateThatLeavesTheTimesIsNotRefusedForTheCalendar) {
  Make(Creation("off"));
  ASSERT_TRUE(MakeSchedule("s", "off").ok());
  ASSERT_TRUE(Update("off", [](v1::UpdateCalendarRequest& request) {
                request.mutable_calendar()->add_rules("* * *");
              }).ok());
  ASSERT_TRUE(RunUntilRetimed());
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name("tenants/default/schedules/s");
  request.mutable_schedule()->set_display_name("other");
  EXPECT_TRUE(fixture_.Call(&ScheduleApi::UpdateSchedule, request).ok());
  request.mutable_schedule()->set_cron("0 10 * * *");
  EXPECT_TRUE(
      absl::IsInvalidArgument(fixture_.Call(&ScheduleApi::UpdateSchedule, request).status()));
}

TEST_F(CalendarServiceTest, ScheduleMadeDuringAChangeHasTheNewDays) {
  Make(Creation("off", {Day(1)}));
  RacingStore store(*fixture_.store);
  MasterService master({}, store, fixture_.runtime);
  master.Start();
  fixture_.runtime.RunUntil([&] { return master.Ready(); }, absl::Minutes(1));
  // The calendar changes between the schedule's read and its commit.
  store.before_commit = [&] {
    const auto updated = SetDates("off", {Day(1), Day(2)});
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_EQ(updated->schedule_count(), 0);
  };
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 9 * * *");
  request.mutable_schedule()->set_calendar("off");
  std::optional<absl::StatusOr<v1::Schedule>> made;
  master.schedules().CreateSchedule(
      request, [&](absl::StatusOr<v1::Schedule> schedule) { made = std::move(schedule); });
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return made.has_value(); }, absl::Minutes(1)));
  ASSERT_TRUE(made->ok()) << made->status();
  EXPECT_EQ(store.before_commit, nullptr);
  EXPECT_EQ(TextOf((*made)->next_time()), Day(3) + " 09:00");
  EXPECT_EQ((*made)->version(), 1);
}

TEST_F(CalendarServiceTest, AnotherMasterFinishesAfterADeath) {
  Make(Creation("off"));
  for (size_t i = 0; i < 2 * kCalendarSchedulesAtOnce + 1; ++i)
    ASSERT_TRUE(MakeSchedule(absl::StrCat("s", i), "off").ok());
  // The master that answers dies before it has changed a schedule.
  ASSERT_TRUE(SetDates("off", {Day(1)}).ok());
  fixture_.Restart();
  EXPECT_EQ(Retimings(), 1u);
  const auto during = Get("off");
  ASSERT_TRUE(during.ok()) << during.status();
  EXPECT_EQ(during->schedule_count(), static_cast<int64_t>(2 * kCalendarSchedulesAtOnce + 1));
  EXPECT_GT(during->outdated_schedule_count(), 0);
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(Get("off")->outdated_schedule_count(), 0);
  for (size_t i = 0; i < 2 * kCalendarSchedulesAtOnce + 1; ++i)
    EXPECT_EQ(TextOf(GetSchedule(absl::StrCat("s", i)).next_time()), Day(2) + " 09:00");
}

TEST_F(CalendarServiceTest, FailureIsRetriedAfterTheDeathOfAMaster) {
  Make(Creation("off"));
  MakeSchedules("off", 2 * kCalendarSchedulesAtOnce + 1);
  ASSERT_TRUE(SetDates("off", {Day(1)}).ok());
  fixture_.Restart();
  const std::vector<Uid> users = Users();
  ASSERT_EQ(VersionOf(users[0]), 1u);
  const std::string whole = Break(users[0]);
  // This master dies after the first step, in which the schedule has failed.
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return ProgressOf("off")->last.has_value(); },
                                        absl::Minutes(1)));
  fixture_.Restart();
  ASSERT_EQ(VersionOf(users.back()), 1u);
  ASSERT_TRUE(RunUntilRetryIsPlanned("off"));
  EXPECT_EQ(Get("off")->outdated_schedule_count(), 1);
  for (size_t i = 1; i < users.size(); ++i) EXPECT_EQ(VersionOf(users[i]), 2u);
  Mend(users[0], whole);
  EXPECT_TRUE(fixture_.runtime.RunUntil([&] { return Retimings() == 0; }, absl::Minutes(2)));
  EXPECT_EQ(VersionOf(users[0]), 2u);
  EXPECT_EQ(Get("off")->outdated_schedule_count(), 0);
}

// Counts the reads of single rows.
class CountingStore final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::ForwardingKvStore;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    size_t definitions = 0;
    for (const kv::Key& key : keys) {
      ++reads[{key.cf, key.key}];
      definitions += key.cf == ColumnFamily::kDefinitions;
    }
    definitions_at_once = std::max(definitions_at_once, definitions);
    inner_.MultiGet(std::move(keys), std::move(done));
  }
  std::map<std::pair<ColumnFamily, std::string>, int> reads;
  size_t definitions_at_once = 0;
};

TEST_F(CalendarServiceTest, FailingScheduleAloneIsRetriedByOneMaster) {
  Make(Creation("off"));
  MakeSchedules("off", 2 * kCalendarSchedulesAtOnce + 1);
  ASSERT_TRUE(SetDates("off", {Day(1)}).ok());
  fixture_.master.reset();
  const std::vector<Uid> users = Users();
  const Uid failing = users[10];
  const std::string whole = Break(failing);
  CountingStore store(*fixture_.store);
  MasterService one({}, store, fixture_.runtime);
  MasterService two({}, store, fixture_.runtime);
  one.Start();
  two.Start();
  ASSERT_TRUE(RunUntilRetryIsPlanned("off"));
  EXPECT_LE(store.definitions_at_once, kRetimedAtOnce);
  const uint64_t steps = ProgressOf("off")->steps;
  const auto reads = std::exchange(store.reads, {});
  const auto tries = [&] {
    return store.reads[{ColumnFamily::kDefinitions, DefinitionKey(failing, 1)}];
  };
  fixture_.runtime.AdvanceBy(kRetimingRetryDelay - absl::Seconds(1));
  EXPECT_EQ(tries(), 0);
  fixture_.runtime.AdvanceBy(3.5 * kRetimingRetryDelay);
  EXPECT_EQ(tries(), 4);
  EXPECT_EQ(ProgressOf("off")->steps, steps + 4);
  for (const Uid& user : users) {
    const std::pair<ColumnFamily, std::string> state = {ColumnFamily::kStates, StateKey(user)};
    EXPECT_GT(reads.at(state), 0);
    if (user == failing) continue;
    EXPECT_FALSE(store.reads.contains(state));
    EXPECT_EQ(VersionOf(user), 2u);
  }
  EXPECT_EQ(VersionOf(failing), 1u);
  Mend(failing, whole);
  EXPECT_TRUE(fixture_.runtime.RunUntil([&] { return Retimings() == 0; }, absl::Minutes(2)));
  EXPECT_EQ(VersionOf(failing), 2u);
}

TEST_F(CalendarServiceTest, ManyFailuresAreAllRetried) {
  Make(Creation("off"));
  MakeSchedules("off", 2 * kCalendarSchedulesAtOnce + 1);
  ASSERT_TRUE(SetDates("off", {Day(1)}).ok());
  fixture_.Restart();
  const std::vector<Uid> users = Users();
  constexpr size_t kFailing = kRetimingFailedMax + 10;
  std::vector<std::string> whole;
  for (size_t i = 0; i < kFailing; ++i) whole.push_back(Break(users[i]));
  ASSERT_TRUE(RunUntilRetryIsPlanned("off"));
  EXPECT_EQ(ProgressOf("off")->failed.size(), kRetimingFailedMax);
  EXPECT_EQ(Get("off")->outdated_schedule_count(), static_cast<int64_t>(users.size()));
  for (size_t i = kFailing; i < users.size(); ++i) EXPECT_EQ(VersionOf(users[i]), 2u);
  for (size_t i = 0; i < kFailing; ++i) Mend(users[i], whole[i]);
  EXPECT_TRUE(fixture_.runtime.RunUntil([&] { return Retimings() == 0; }, absl::Minutes(2)));
  for (const Uid& user : users) EXPECT_EQ(VersionOf(user), 2u);
}

TEST_F(CalendarServiceTest, CalendarsAreTakenInTurn) {
  Make(Creation("long"));
  Make(Creation("short"));
  MakeSchedules("long", 2 * kCalendarSchedulesAtOnce + 1);
  MakeSchedules("short", 1);
  kv::Group group;
  for (const std::string id : {"long", "short"}) {
    group.mutations.push_back(
        kv::Put(ColumnFamily::kPolicies, RetimingKey("default", id),
                EncodeRetimingProgress({.change = Uid::FromHalves(1, 2), .last = std::nullopt})));
  }
  fixture_.Commit({group});
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return Retimings() == 1; }, absl::Minutes(1)));
  const auto progress = ProgressOf("long");
  ASSERT_TRUE(progress.has_value());
  EXPECT_LE(progress->steps, 2u);
  EXPECT_TRUE(RunUntilRetimed());
}

TEST_F(CalendarServiceTest, UpdateOfAScheduleTakesThePresentDays) {
  Make(Creation("off"));
  ASSERT_TRUE(MakeSchedule("s", "off").ok());
  ASSERT_TRUE(SetDates("off", {Day(1)}).ok());
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name("tenants/default/schedules/s");
  update.mutable_schedule()->set_display_name("new");
  const auto updated = fixture_.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(TextOf(updated->next_time()), Day(2) + " 09:00");
  const int64_t version = updated->version();
  ASSERT_TRUE(RunUntilRetimed());
  EXPECT_EQ(GetSchedule("s").version(), version);
}

}  // namespace calendar_service_test
}  // namespace escapement::master
